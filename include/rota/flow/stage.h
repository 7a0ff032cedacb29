// Stage: the function of a task. StageContext: its inputs, outputs and checkpoints.
//
//   scheduler->submit({.task_id = "speech", .deps = {"story"}}, [](StageContext& context) -> Result<void> {
//     ROTA_TRY_ASSIGN(const std::string* text, context.input<std::string>("text"));
//     for (int i = 0; i < 10; ++i) {
//       say_part(*text, i);
//       context.progress(0.1 * (i + 1));      // A checkpoint: a pause or cancellation takes effect here.
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

// Thread safety: used by the stage's own task; cancel_token() and is_cancelled() also by tasks that the stage starts.
class StageContext {
 public:
  StageContext(detail::Core& core, detail::Entry& entry, std::uint32_t attempt,
               std::vector<std::shared_ptr<const Values>> inputs);
  StageContext(const StageContext&) = delete;
  StageContext& operator=(const StageContext&) = delete;

  [[nodiscard]] std::string_view task_id() const;
  [[nodiscard]] std::string_view trace_id() const;
  // The number of this run of the stage, from 1.
  [[nodiscard]] std::uint32_t attempt() const { return attempt_; }

  // The outputs of the direct predecessors, merged; for equal names, the task that comes later in `deps` wins.
  [[nodiscard]] const Values& inputs();
  template <class T>
  [[nodiscard]] Result<const T*> input(std::string_view name) {
    return inputs().template get<T>(name);
  }
  // Passes `value` to the direct successors, once this stage has succeeded.
  template <class T>
  void output(std::string_view name, T&& value) {
    outputs_.set(name, std::forward<T>(value));
  }

  // Reports progress, from 0 to 1. This is a checkpoint: if a pause is requested, the stage stops here, and gives its
  // thread and slots away, until it is resumed; if it is cancelled, this throws fiber::Cancelled.
  void progress(double fraction, std::string_view note = {});
  // A checkpoint without a progress report.
  void checkpoint();
  // Cancelled together with the task. In the thread pool, the waits of the stage's fiber end with Cancelled as well.
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

// A callable that takes a StageContext& and returns Result<void> or void. An exception counts as a failure, like a
// returned error. It may be called again after a failure (retry), so it must be copyable.
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
      if (!static_cast<bool>(f)) return;  // An empty std::function gives an empty Stage.
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
