// Flow: a graph of functions that runs in this process.
//
//   Flow flow;
//   auto story = flow.task([] { return write_story(); });
//   auto images = flow.task([](const Story& s) { return draw(s); }, story);      // receives the result of `story`
//   auto sound = flow.task([](const Story& s) { return speak(s); }, story);
//   auto film = flow.task([](const Images& i, const Sound& s) { return cut(i, s); }, images, sound);
//   auto clean = flow.task([] { remove_files(); });
//   film.precede(clean);                                                         // an order without a value
//   Result<void> end = flow.run();
//   if (end.ok()) show(film.result());
//
// If a task throws, its descendants are not run and the other tasks are; run() returns the first failure. Tasks run as
// fibers of a runtime: a task that waits parks its fiber, not a thread. A flow may be run any number of times.
//
// As long as no task has a priority or a demand, a task goes directly from its last predecessor to the deque of a
// thread worker, and the first successor that becomes ready runs in place. Otherwise graph::ReadyOrder decides, under a
// lock.
//
// Thread safety: none, except that tasks of a running flow may read the results of their predecessors. A handle is
// valid as long as its flow, which must not be moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rota/assert.h"
#include "rota/detail/sync.h"
#include "rota/fiber/runtime.h"
#include "rota/flow/config.h"
#include "rota/result.h"

namespace rota::flow {

class Flow;
template <class T>
class FlowTask;

namespace detail {

class FlowRun;
struct Drawing;

enum class NodeAction : std::uint8_t { kRun, kDropResult, kDestroy };

// A node in the flow's arena consists of this, the result of its function, and the function.
struct FlowNode {
  void (*act)(FlowNode*, NodeAction);
};

template <class T>
struct ResultNode : FlowNode {
  bool has_result = false;
  union {
    T value;
  };
  ResultNode() {}   // NOLINT(modernize-use-equals-default): the value starts dead.
  ~ResultNode() {}  // NOLINT(modernize-use-equals-default)
};

template <>
struct ResultNode<void> : FlowNode {};

template <class F, class T, class... Inputs>
struct FunctionNode : ResultNode<T> {
  F function;
  [[no_unique_address]] std::tuple<const ResultNode<Inputs>*...> inputs;

  FunctionNode(F&& f, const ResultNode<Inputs>*... from) : function(std::move(f)), inputs(from...) {}

  static void perform(FlowNode* node, NodeAction action) {
    auto* self = static_cast<FunctionNode*>(node);
    if (action == NodeAction::kRun) [[likely]] {
      std::apply(
          [self](const ResultNode<Inputs>*... from) {
            if constexpr (std::is_void_v<T>) {
              self->function(from->value...);
            } else {
              ::new (static_cast<void*>(std::addressof(self->value))) T(self->function(from->value...));
              self->has_result = true;
            }
          },
          self->inputs);
      return;
    }
    if constexpr (!std::is_void_v<T>) {
      if (self->has_result) self->value.~T();
      self->has_result = false;
    }
    if (action == NodeAction::kDestroy) self->~FunctionNode();
  }
};

}  // namespace detail

// The handle of a task. Cheap to copy.
template <class T>
class FlowTask {
 public:
  FlowTask() = default;

  // The other tasks wait for this one; this one waits for the others. prepare() or run() reports a cycle.
  template <class... U>
  FlowTask precede(FlowTask<U>... others) const;
  template <class... U>
  FlowTask succeed(FlowTask<U>... others) const;
  // The name shown in messages and pictures.
  FlowTask name(std::string_view name) const;
  // Setting either of these takes the whole flow off the fast path.
  FlowTask priority(std::int32_t priority) const;
  FlowTask demand(const ResourceDemand& demand) const;

  // The result of its latest run. REQUIRES: that run succeeded.
  [[nodiscard]] const std::conditional_t<std::is_void_v<T>, char, T>& result() const
    requires(!std::is_void_v<T>)
  {
    ROTA_ASSERT(node_ != nullptr && node_->has_result, "the task has no result: it has not run, or it failed");
    return node_->value;
  }
  [[nodiscard]] bool has_result() const
    requires(!std::is_void_v<T>)
  {
    return node_ != nullptr && node_->has_result;
  }
  [[nodiscard]] std::uint32_t index() const { return index_; }

 private:
  friend class Flow;
  template <class U>
  friend class FlowTask;
  FlowTask(Flow* flow, detail::ResultNode<T>* node, std::uint32_t index) : flow_(flow), node_(node), index_(index) {}

  Flow* flow_ = nullptr;
  detail::ResultNode<T>* node_ = nullptr;
  std::uint32_t index_ = 0;
};

class Flow {
 public:
  Flow();
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Adds a task that calls f(results of `inputs`...) after the inputs have succeeded.
  template <class F, class... Inputs>
  auto task(F&& f, FlowTask<Inputs>... inputs)
      -> FlowTask<std::decay_t<std::invoke_result_t<std::decay_t<F>&, const Inputs&...>>> {
    using T = std::decay_t<std::invoke_result_t<std::decay_t<F>&, const Inputs&...>>;
    using Node = detail::FunctionNode<std::decay_t<F>, T, Inputs...>;
    auto* node =
        ::new (allocate(sizeof(Node), alignof(Node))) Node(std::decay_t<F>(std::forward<F>(f)), inputs.node_...);
    node->act = &Node::perform;
    // A node without destructors to run is not visited at the end.
    if constexpr (!std::is_trivially_destructible_v<std::decay_t<F>> ||
                  !(std::is_void_v<T> || std::is_trivially_destructible_v<T>)) {
      to_destroy_ = true;
    }
    if constexpr (!std::is_void_v<T>) has_results_ = true;
    const auto index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back(node);
    prepared_ = false;
    (edge(inputs.index_, index), ...);
    return FlowTask<T>(this, node, index);
  }

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  // For flows with priorities or demands; call it before prepare(). 0 CPU slots: as many as the runtime has thread
  // workers.
  void limits(const ResourceBudget& budget, const AgingPolicy& aging = {});
  // Prepares the graph for running and checks it; run() does this if necessary. InvalidArgument for a cycle.
  Result<void> prepare();

  // Runs every task once and waits for the end: on a runtime of the flow's own, created at the first run, or on the
  // given one, called from a thread or from a task of it. Returns the first failure, with the task's name as the detail
  // `task`; Cancelled if the calling task is cancelled; Capacity, without running anything, if a demand can never be
  // met.
  Result<void> run();
  Result<void> run(fiber::Runtime& runtime);

  // Counts of the latest run that was not cancelled.
  struct Counts {
    std::uint64_t succeeded = 0, failed = 0, skipped = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Records each task's times from the next run on. Without it, a run does not read the clock.
  void record(bool on = true) { record_ = on; }
  // Writes the latest recorded run, one slice per task, for ui.perfetto.dev and chrome://tracing, like
  // IScheduler::write_trace(). FailedPrecondition if no run was recorded; IoError.
  Result<void> write_trace(std::ostream& out) const;
  // The names of the tasks on the critical path (rota/flow/picture.h); empty if no run was recorded.
  [[nodiscard]] std::vector<std::string> critical_path() const;
  // The graph as text for Graphviz and for Markdown pages. After a recorded run it contains times and marks the
  // critical path.
  [[nodiscard]] std::string graphviz() const;
  [[nodiscard]] std::string mermaid() const;

 private:
  friend class detail::FlowRun;
  template <class T>
  friend class FlowTask;

  struct Edge {
    std::uint32_t from, to;
  };
  struct Attributes {
    std::int32_t priority = 0;
    ResourceDemand demand{};
  };

  struct Recorded {  // Per task; `begin` is negative if the task did not run.
    std::int64_t begin_ns = -1, end_ns = -1;
    std::uint32_t worker = 0;
    bool succeeded = false;
  };
  // The record of a task, or null if no run was recorded.
  [[nodiscard]] const Recorded* recorded(std::uint32_t index) const {
    return index < recorded_.size() ? &recorded_[index] : nullptr;
  }
  [[nodiscard]] detail::Drawing drawing() const;

  void edge(std::uint32_t from, std::uint32_t to) {
    edges_.push_back({from, to});
    prepared_ = false;
  }
  void* allocate(std::size_t bytes, std::size_t alignment) {
    const std::uintptr_t at = (free_ + alignment - 1) & ~(std::uintptr_t{alignment} - 1);
    if (at + bytes > end_) [[unlikely]]
      return allocate_slow(bytes, alignment);
    free_ = at + bytes;
    return reinterpret_cast<void*>(at);
  }
  void* allocate_slow(std::size_t bytes, std::size_t alignment);
  Attributes& attributes(std::uint32_t index);
  [[nodiscard]] std::string label(std::uint32_t index) const;
  [[nodiscard]] Error cycle_error(std::span<const std::uint32_t> waits) const;
  Result<void> check_acyclic() const;

  std::vector<detail::FlowNode*> nodes_;
  std::vector<Edge> edges_;
  std::uintptr_t free_ = 0, end_ = 0;  // The free part of the arena's newest block.
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  bool to_destroy_ = false, has_results_ = false;
  std::map<std::uint32_t, std::string> names_;
  std::vector<Attributes> attributes_;  // Empty as long as no task has any.
  ResourceBudget budget_{.cpu_slots_hard = 0, .ram_mb_soft = 0, .vram_mb_soft = 0};
  AgingPolicy aging_{};

  // Built by prepare(): the successors of i are targets_[starts_[i]] to targets_[starts_[i + 1]].
  bool prepared_ = false;
  std::vector<std::uint32_t> starts_, targets_, waits_;
  std::unique_ptr<fiber::Runtime> runtime_;
  Counts counts_;
  bool record_ = false;
  std::vector<Recorded> recorded_;  // Per task; empty if no run was recorded.
  std::uint32_t recorded_workers_ = 0;
};

template <class T>
template <class... U>
FlowTask<T> FlowTask<T>::precede(FlowTask<U>... others) const {
  (flow_->edge(index_, others.index_), ...);
  return *this;
}
template <class T>
template <class... U>
FlowTask<T> FlowTask<T>::succeed(FlowTask<U>... others) const {
  (flow_->edge(others.index_, index_), ...);
  return *this;
}
template <class T>
FlowTask<T> FlowTask<T>::name(std::string_view name) const {
  flow_->names_[index_] = name;
  return *this;
}
template <class T>
FlowTask<T> FlowTask<T>::priority(std::int32_t priority) const {
  flow_->attributes(index_).priority = priority;
  return *this;
}
template <class T>
FlowTask<T> FlowTask<T>::demand(const ResourceDemand& demand) const {
  flow_->attributes(index_).demand = demand;
  return *this;
}

}  // namespace rota::flow
