// Running a flow.
//
// Each task has a counter of predecessors that have not ended. The thread that brings it to 0 runs the task: the first
// such successor in place, on the same stack, after its predecessor (a chain); the others go to the thread worker's
// deque, where they can be stolen, and from where they run if this one blocks.
//
// The tasks in the deque are children of a scope on the fiber that launched them. When its chain has ended, that fiber
// runs its remaining children, newest first; the scope stays open and they launch into it as well (Nursery::help).
// Therefore one scope, without a locked instruction for counting, is enough until a task is stolen: a thief opens its
// own scope on its own fiber.
//
// A task that fails or is skipped marks its successors before it counts them down (release, by the counter; partner:
// the acquire of the thread that brings it to 0), so the thread that runs a successor sees the mark.
//
// With priorities or demands a ReadyOrder is placed between "ready" and "run": under one lock a task that ended returns
// its resources, the tasks that became ready are pushed, and those that may start are picked.
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "base/sync.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"
#include "rota/flow/flow.h"
#include "rota/graph/ready_order.h"

namespace rota::flow {

namespace detail {

using graph::Moment;
using graph::TaskRef;

class FlowRun {
 public:
  FlowRun(Flow& flow, bool solo)
      : flow_(flow), solo_(solo), counters_(new sync::Atomic<std::uint32_t>[flow.nodes_.size()]) {
    for (std::size_t i = 0; i < flow.nodes_.size(); ++i) counters_[i].store(flow.waits_[i], std::memory_order_relaxed);
  }

  // Called before run(), for a flow with priorities or demands.
  Result<void> set_order(std::uint32_t workers) {
    ResourceBudget budget = flow_.budget_;
    if (budget.cpu_slots_hard == 0) budget.cpu_slots_hard = workers;
    order_ = std::make_unique<graph::ReadyOrder>(budget, flow_.aging_, nullptr);
    for (std::uint32_t i = 0; i < flow_.nodes_.size(); ++i) {
      const Flow::Attributes& attributes = flow_.attributes_[i];
      if (Result<void> fits = graph::check(attributes.demand, budget); !fits.ok()) {
        return std::move(fits).take_error().in(flow_.label(i)).with("task", flow_.label(i));
      }
      order_->declare(TaskRef(i + 1), attributes.priority, attributes.demand);
    }
    return {};
  }

  Result<void> run() {
    flow_.counts_ = {};
    if (flow_.record_) {
      flow_.recorded_.assign(flow_.nodes_.size(), {});
      recorded_ = flow_.recorded_.data();
    }
    if (flow_.has_results_) {
      for (FlowNode* node : flow_.nodes_) node->act(node, NodeAction::kDropResult);
    }
    fiber::Nursery nursery;
    if (order_ != nullptr) {
      start_ordered(nursery);
    } else {
      for (std::uint32_t i = 0; i < flow_.nodes_.size(); ++i) {
        if (flow_.waits_[i] == 0) launch(nursery, i);
      }
    }
    nursery.help();
    Result<void> closed = nursery.close();
    if (!closed.ok()) return closed;  // Cancelled: some tasks were dropped.
    if (refused_) return *refused_;
    flow_.counts_ = {.succeeded = flow_.nodes_.size() - failed_ - skipped_, .failed = failed_, .skipped = skipped_};
    if (error_) return *error_;
    return {};
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr int kChain = 256;  // How many tasks run in place before the fiber yields the thread worker.

  // Runs a task from the deque. On the fiber in whose scope it was launched, and while that scope is open, it runs in
  // that scope; elsewhere in a scope of its own. (A scope lives until its children have ended, so it can be inspected.)
  struct Start {
    FlowRun* run;
    fiber::Nursery* scope;
    std::uint32_t index;
    void operator()() const {
      if (scope->core()->owner == fiber::detail::current_worker()->fiber &&
          scope->state() == fiber::NurseryState::kOpen) {
        run->go(*scope, index);
        return;
      }
      fiber::with_scope([this](fiber::Nursery& own) {
        run->go(own, index);
        own.help();
      });
    }
  };
  void launch(fiber::Nursery& scope, std::uint32_t index) {
    try {
      scope.launch(Start{this, &scope, index});
    } catch (const fiber::FiberError& error) {  // Tasks that were not started do not run.
      refuse(error.error());
    }
  }
  // Tasks will not run: the scope is cancelled, or the runtime refuses to spawn them.
  [[gnu::cold]] void refuse(const Error& error) {
    sync::MutexLock lock(mutex_);
    if (!refused_) refused_ = error;
  }
  // True once the run is cancelled: no further task starts, and run() reports it even if every task that ran ignored
  // the cancellation and returned normally.
  bool stopped(fiber::Nursery& scope) {
    fiber::detail::ThreadWorker* worker = fiber::detail::current_worker();
    if (!fiber::detail::scope_cancelled(worker, scope.core(), worker->fiber->task)) [[likely]]
      return false;
    refuse(Error{ErrorCode::kCancelled, "the flow was cancelled"});
    return true;
  }
  void go(fiber::Nursery& scope, std::uint32_t index) {
    if (order_ != nullptr) {
      chain_ordered(scope, index);
    } else if (solo_) {
      chain<true>(scope, index);
    } else {
      chain<false>(scope, index);
    }
  }

  // Counts one predecessor of `index` down; true if it was the last. A runtime with one thread worker needs no atomics.
  template <bool kSolo>
  bool count_down(std::uint32_t index) {
    sync::Atomic<std::uint32_t>& counter = counters_[index];
    if constexpr (kSolo) {
      const std::uint32_t left = counter.load(std::memory_order_relaxed) - 1;
      counter.store(left, std::memory_order_relaxed);
      return left == 0;
    } else {
      // acq_rel: each predecessor releases its effects to the thread that brings the counter to 0, which acquires them.
      return counter.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
  }

  template <bool kSolo>
  void chain(fiber::Nursery& scope, std::uint32_t index) {
    for (int n = 1; index != kNone; ++n) {
      const std::uint32_t* const first = flow_.targets_.data() + flow_.starts_[index];
      const std::uint32_t* const last = flow_.targets_.data() + flow_.starts_[index + 1];
      for (const std::uint32_t* to = first; to != last && to != first + 4; ++to) __builtin_prefetch(&counters_[*to], 1);
      if (!call(index)) [[unlikely]]
        mark_skipped(first, last);
      if (stopped(scope)) [[unlikely]]
        return;
      std::uint32_t next = kNone;
      for (const std::uint32_t* to = first; to != last; ++to) {
        if (!count_down<kSolo>(*to)) continue;
        if (next == kNone) {
          next = *to;
          __builtin_prefetch(flow_.nodes_[next]);
        } else {
          launch(scope, *to);
        }
      }
      if (n == kChain && next != kNone) [[unlikely]] {
        launch(scope, next);
        return;
      }
      index = next;
    }
  }

  // False if the task failed, or was skipped because a predecessor failed or was skipped.
  bool call(std::uint32_t index) {
    if (any_lost_.load(std::memory_order_relaxed) && is_skipped(index)) [[unlikely]]  // Partner: see the file comment.
      return false;
    if (recorded_ != nullptr) [[unlikely]]
      return call_recorded(index);
    return call_node(index);
  }
  // Each task writes its own element; run() returns after the nursery has closed, which orders all of them before it.
  [[gnu::noinline]] bool call_recorded(std::uint32_t index) {
    Flow::Recorded& record = recorded_[index];
    record.worker = fiber::detail::current_worker()->index;
    record.begin_ns = fiber::now().count();
    record.succeeded = call_node(index);
    record.end_ns = fiber::now().count();
    return record.succeeded;
  }
  bool call_node(std::uint32_t index) {
    try {
      FlowNode* node = flow_.nodes_[index];
      node->act(node, NodeAction::kRun);
      return true;
    } catch (...) {
      fail(index, std::current_exception());
      return false;
    }
  }

  bool is_skipped(std::uint32_t index) {
    sync::MutexLock lock(mutex_);
    if (skip_[index] == 0) return false;
    skipped_ += 1;
    return true;
  }
  void mark_skipped(const std::uint32_t* first, const std::uint32_t* last) {
    sync::MutexLock lock(mutex_);
    for (; first != last; ++first) skip_[*first] = 1;
  }
  [[gnu::cold]] void fail(std::uint32_t index, const std::exception_ptr& exception) {
    Error error{ErrorCode::kInternal, ""};
    try {
      std::rethrow_exception(exception);
    } catch (const fiber::FiberError& thrown) {
      error = thrown.error();
    } catch (const std::exception& thrown) {
      error.message = thrown.what();
    } catch (...) {
      error.message = "it threw an object that is not a std::exception";
    }
    sync::MutexLock lock(mutex_);
    failed_ += 1;
    if (skip_.empty()) skip_.assign(flow_.nodes_.size(), 0);
    any_lost_.store(true, std::memory_order_relaxed);  // A reader that sees it takes the lock.
    if (!error_) error_ = std::move(error).in(flow_.label(index)).with("task", flow_.label(index));
  }

  // ---- With priorities or demands
  static Moment now() { return Moment{fiber::now().count()}; }
  void start_ordered(fiber::Nursery& scope) {
    std::vector<std::uint32_t> starts;
    {
      sync::MutexLock lock(order_mutex_);
      const Moment time = now();
      for (std::uint32_t i = 0; i < flow_.nodes_.size(); ++i) {
        if (flow_.waits_[i] == 0) order_->push(TaskRef(i + 1), time);
      }
      for (TaskRef next = order_->pick(time); !next.is_none(); next = order_->pick(time)) {
        starts.push_back(next.value() - 1);
      }
    }
    for (const std::uint32_t start : starts) launch(scope, start);
  }
  void chain_ordered(fiber::Nursery& scope, std::uint32_t index) {
    for (int n = 1;; ++n) {
      const std::uint32_t* const first = flow_.targets_.data() + flow_.starts_[index];
      const std::uint32_t* const last = flow_.targets_.data() + flow_.starts_[index + 1];
      if (!call(index)) mark_skipped(first, last);
      if (stopped(scope)) return;
      TaskRef next;
      {
        sync::MutexLock lock(order_mutex_);
        const Moment time = now();
        order_->release(TaskRef(index + 1));
        for (const std::uint32_t* to = first; to != last; ++to) {
          if (count_down<true>(*to)) order_->push(TaskRef(*to + 1), time);  // Under the lock.
        }
        next = order_->pick(time);
        if (next.is_none()) return;
        if (order_->size() > 0) {
          for (TaskRef more = order_->pick(time); !more.is_none(); more = order_->pick(time)) {
            launch(scope, more.value() - 1);  // Neither waits nor calls user code.
          }
        }
      }
      index = next.value() - 1;
      if (n < kChain) continue;
      launch(scope, index);
      return;
    }
  }

  Flow& flow_;
  const bool solo_;
  Flow::Recorded* recorded_ = nullptr;  // Per task; null unless this run is recorded.
  const std::unique_ptr<sync::Atomic<std::uint32_t>[]> counters_;
  sync::Atomic<bool> any_lost_{false};
  sync::Mutex mutex_;
  std::vector<char> skip_;  // This and the next four are under mutex_ until the nursery is closed.
  std::uint64_t failed_ = 0, skipped_ = 0;
  std::optional<Error> error_;
  std::optional<Error> refused_;
  sync::Mutex order_mutex_;
  std::unique_ptr<graph::ReadyOrder> order_;  // Under order_mutex_ once the flow runs.
};

}  // namespace detail

Result<void> Flow::run() {
  if (runtime_ == nullptr) runtime_ = std::make_unique<fiber::Runtime>();
  return run(*runtime_);
}

Result<void> Flow::run(fiber::Runtime& runtime) {
  ROTA_TRY(prepare());
  const auto workers = static_cast<std::uint32_t>(runtime.stats().workers.size());
  const auto body = [&]() -> Result<void> {
    detail::FlowRun run(*this, workers == 1);
    if (!attributes_.empty()) ROTA_TRY(run.set_order(workers));
    if (record_) recorded_workers_ = workers;
    return run.run();
  };
  const fiber::detail::ThreadWorker* worker = fiber::detail::current_worker();
  if (worker != nullptr && worker->runtime == runtime.core()) return body();
  try {
    return runtime.run(body);
  } catch (const fiber::FiberError& error) {  // The runtime takes no tasks any more.
    return error.error();
  }
}

}  // namespace rota::flow
