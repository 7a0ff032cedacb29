// both(f, g): runs two halves of a computation, the second of which another thread worker may take.
//
//   auto [left, right] = both([&] { return sum(first, middle); }, [&] { return sum(middle, last); });
//
// Equivalent to a scope with g() spawned as its only child and f() as its body, with the same results and failures
// (F-4, F-5): both have ended when it returns; if one fails, the other is cancelled and the exception is thrown. It is
// cheaper because the child's record is in the caller's frame and is written only if another thread worker takes the
// child. Otherwise g() is called here, as part of the calling task.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

#include "rota/fiber/detail/core.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/task.h"

namespace rota::fiber {

namespace detail {

// A child that has no task record yet. Only `core` and `act` are set while it is in the deque; the code that takes it
// out to run it as a task creates the record, which is placed right after it.
struct alignas(16) Fork {
  NurseryCore core{};
  void (*act)(TaskRecord*, Action);
};

template <class G, class T>
struct ForkFrame : Fork {
  alignas(alignof(Fork)) std::byte storage[sizeof(ResultRecord<T>)];  // NOLINT: the record, once it is made.
  G* g;

  explicit ForkFrame(G& child) : g(&child) { act = &perform; }
  ResultRecord<T>& record() { return *reinterpret_cast<ResultRecord<T>*>(storage); }
  static_assert(alignof(ResultRecord<T>) <= alignof(Fork));

  static void perform(TaskRecord* base, Action action) {
    auto* record = static_cast<ResultRecord<T>*>(base);
    if (action == Action::kRun) {
      auto* fork = static_cast<ForkFrame*>(reinterpret_cast<Fork*>(base) - 1);
      try {
        if constexpr (std::is_void_v<T>) {
          (*fork->g)();
        } else {
          ::new (static_cast<void*>(std::addressof(record->value))) T((*fork->g)());
        }
        set_state(record, TaskState::kCompleting);
      } catch (...) {
        capture_exception(record, &record->error);
      }
    } else if (action == Action::kDropResult) {
      if (record->flags & (TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled)) {
        record->error.~exception_ptr();
      } else if constexpr (!std::is_void_v<T>) {
        if (!(record->flags & (TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan))) record->value.~T();
      }
    }
  }
};

// The child was taken by another thread worker: waits for it. On return its result is in its record; throws the error
// of the scope.
void join_fork(Fork* fork);
// Called in a handler: the body, or the child called in place, has thrown. Like fail_scope(), and drops the child's
// result.
[[noreturn]] void abandon_fork(Fork* fork);
// Ends the scope when something unusual happened in it. Throws the error of the scope.
void finish_fork(Fork* fork);

template <class T>
using ValueOf = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class F>
[[gnu::always_inline]] inline ValueOf<std::invoke_result_t<F&>> call_for_value(F& f) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
    f();
    return {};
  } else {
    return f();
  }
}

template <class F, class G>
auto both_in_scope(F& f, G& g) {
  using A = ValueOf<std::invoke_result_t<F&>>;
  using B = ValueOf<std::invoke_result_t<G&>>;
  return with_scope([&](Nursery& nursery) {
    Task<B> child = nursery.spawn([&g] { return call_for_value(g); });
    A a = call_for_value(f);
    return std::pair<A, B>(std::move(a), child.get());
  });
}

}  // namespace detail

// Returns a pair of the results of f() and g(), with std::monostate for void.
template <class F, class G>
auto both(F&& f, G&& g)
    -> std::pair<detail::ValueOf<std::invoke_result_t<F&>>, detail::ValueOf<std::invoke_result_t<G&>>> {
  using namespace detail;
  using A = std::invoke_result_t<F&>;
  using B = std::invoke_result_t<G&>;
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) [[unlikely]]
    throw_outside_runtime("both()");
  // A move of a result that throws, after the scope has ended, would need a handler of its own below.
  constexpr bool kMoves =
      std::is_nothrow_move_constructible_v<ValueOf<A>> && std::is_nothrow_move_constructible_v<ValueOf<B>>;
  if (ROTA_METERED || !kMoves || worker->hooks != 0) [[unlikely]]
    return both_in_scope(f, g);
  ForkFrame<std::remove_reference_t<G>, B> fork(g);
  Fiber* fiber = worker->fiber;
  NurseryCore& core = fork.core;
  describe_scope(&core, fiber);
  core.local = 1;
  const Item item = item_of(&fork);
  if (!worker->deque.push(item)) [[unlikely]]
    throw std::bad_alloc();
  fiber->scope = &core;
  notify_work(worker);
  try {
    ValueOf<A> a = call_for_value(f);
    worker = current_worker();
    if (worker->deque.pop_if(item)) [[likely]] {
      core.local = 0;
      if (scope_cancelled(worker, &core, core.owner_task)) [[unlikely]]
        throw_cancelled();
      ValueOf<B> b = call_for_value(g);
      current_worker()->counters.called.add(1);
      if (core.extras.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
        finish_fork(&fork);
      } else {
        fiber->scope = core.outer;
      }
      return {std::move(a), std::move(b)};
    }
    join_fork(&fork);
    if constexpr (std::is_void_v<B>) {
      return {std::move(a), {}};
    } else {
      struct Drop {
        B& value;
        ~Drop() { value.~B(); }
      } drop{fork.record().value};
      return {std::move(a), std::move(drop.value)};
    }
  } catch (...) {
    abandon_fork(&fork);
  }
}

}  // namespace rota::fiber
