// A stage: what a task does; and its context: what it gets and gives.
//
//   scheduler->submit({.task_id = "speech", .deps = {"story"}}, [](StageContext& context) -> Result<void> {
//     ROTA_TRY_ASSIGN(const std::string* text, context.input<std::string>("text"));
//     for (int i = 0; i < 10; ++i) {
//       say_part(*text, i);
//       context.progress(0.1 * (i + 1));      // A checkpoint: may be paused here, and is cancelled here.
//     }
//     context.output("wave", Wave{...});
//     return {};
//   });
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rota/fiber/cancel.h"
#include "rota/flow/values.h"
#include "rota/result.h"

namespace rota::flow {

namespace detail {
class Core;
struct Entry;
}  // namespace detail

// Thread safety: belongs to the stage's own task; cancel_token() and is_cancelled() may be used from tasks that it
// starts.
class StageContext {
 public:
  StageContext(detail::Core& core, detail::Entry& entry, std::uint32_t attempt,
               std::vector<std::shared_ptr<const Values>> inputs);
  StageContext(const StageContext&) = delete;
  StageContext& operator=(const StageContext&) = delete;

  [[nodiscard]] std::string_view task_id() const;
  [[nodiscard]] std::string_view trace_id() const;
  // Which run of the stage this is, from 1 on.
  [[nodiscard]] std::uint32_t attempt() const { return attempt_; }

  // What the direct predecessors gave, merged; of equal names the one counts whose task stands later in `deps`.
  [[nodiscard]] const Values& inputs();
  template <class T>
  [[nodiscard]] Result<const T*> input(std::string_view name) {
    return inputs().template get<T>(name);
  }
  // Hands `value` on to the direct successors, once this stage has succeeded.
  template <class T>
  void output(std::string_view name, T&& value) {
    outputs_.set(name, std::forward<T>(value));
  }

  // Says how far the stage has come, from 0 to 1. This is the checkpoint: if the task is to be paused, it stops here,
  // giving its thread and its slots away, until it is resumed; if it is to be cancelled, this throws fiber::Cancelled.
  void progress(double fraction, std::string_view note = {});
  // A checkpoint without news.
  void checkpoint();
  // Cancelled when the task is. In the thread pool whatever the stage waits for as a fiber ends with Cancelled, too.
  [[nodiscard]] fiber::CancelToken cancel_token();
  [[nodiscard]] bool is_cancelled() const;

 private:
  friend class detail::Core;
  detail::Core& core_;
  detail::Entry& entry_;
  const std::uint32_t attempt_;
  std::vector<std::shared_ptr<const Values>> given_;
  bool merged_ = false;
  Values inputs_;
  Values outputs_;
};

// Anything that can be called with a StageContext& and returns a Result<void> or nothing. An exception is a failure,
// like an error that is returned. May be called again after a failure (retry), so that it must be copyable.
class Stage {
 public:
  Stage() = default;
  Stage(std::nullptr_t) {}  // NOLINT(*-explicit-*)
  template <class F>
    requires(!std::is_same_v<std::decay_t<F>, Stage> && std::invocable<std::decay_t<F>&, StageContext&>)
  Stage(F&& f) {  // NOLINT(*-explicit-*)
    using R = std::invoke_result_t<std::decay_t<F>&, StageContext&>;
    static_assert(std::is_void_v<R> || std::is_same_v<R, Result<void>>, "a stage returns void or Result<void>");
    if constexpr (std::is_pointer_v<std::remove_cvref_t<F>> || requires { f.operator bool(); }) {
      if (!static_cast<bool>(f)) return;  // An empty std::function is no stage.
    }
    if constexpr (std::is_void_v<R>) {
      call_ = [f = std::forward<F>(f)](StageContext& context) mutable -> Result<void> {
        f(context);
        return {};
      };
    } else {
      call_ = std::forward<F>(f);
    }
  }
  explicit operator bool() const { return static_cast<bool>(call_); }
  Result<void> operator()(StageContext& context) const { return call_(context); }

 private:
  std::function<Result<void>(StageContext&)> call_;
};

}  // namespace rota::flow
