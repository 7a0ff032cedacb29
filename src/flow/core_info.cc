// Queries about tasks, and the IScheduler interface around the core.
#include <algorithm>

#include "flow/core.h"

namespace rota::flow {

IScheduler::~IScheduler() = default;

// -------------------------------------------------------------------------------------------------------- StageContext
StageContext::StageContext(detail::Core& core, detail::Entry& entry, std::uint32_t attempt,
                           std::vector<std::shared_ptr<const Values>> inputs)
    : core_(core), entry_(entry), attempt_(attempt), given_(std::move(inputs)) {}

std::string_view StageContext::task_id() const { return entry_.descriptor.task_id; }
std::string_view StageContext::trace_id() const { return entry_.descriptor.trace_id; }

const Values& StageContext::inputs() {
  if (!merged_) {
    for (const std::shared_ptr<const Values>& values : given_) inputs_.merge_from(*values);
    merged_ = true;
  }
  return inputs_;
}

void StageContext::progress(double fraction, std::string_view note) { core_.progress(entry_, fraction, note); }
void StageContext::checkpoint() { core_.checkpoint(entry_); }
fiber::CancelToken StageContext::cancel_token() { return core_.token(entry_); }
bool StageContext::is_cancelled() const { return core_.is_stopping(entry_); }

namespace detail {

bool Core::is_stopping(const Entry& e) const {
  sync::MutexLock lock(mutex_);
  return e.told_to_stop;
}

TaskError Core::cancel_error(const Entry& e) const {
  const std::string& id = e.descriptor.task_id;
  switch (roster_.cause(e.ref)) {
    case graph::CancelCause::kDependency: {
      const Entry& root = entry(roster_.root(e.ref));
      const bool failed = roster_.state(root.ref) == TaskState::kFailed;
      std::string text = "'" + id + "' cannot run, because '" + root.descriptor.task_id + "' ";
      text += failed ? "failed" : "was cancelled";
      if (failed && root.error) text += ": " + root.error->message;
      return TaskError{ErrorCode::kCancelled, std::move(text)}
          .with("task", id)
          .with("cause", "dependency")
          .with("root", root.descriptor.task_id);
    }
    case graph::CancelCause::kPauseTimeout:
      return TaskError{ErrorCode::kTimeout, "'" + id + "' reached no checkpoint within " +
                                                std::to_string(config_.pause.timeout_ms) +
                                                " ms after the pause was requested, and was cancelled"}
          .with("task", id)
          .with("cause", "pause timeout");
    default:
      return TaskError{ErrorCode::kCancelled, "'" + id + "' was cancelled"}.with("task", id).with("cause", "request");
  }
}

TaskInfo Core::info_of(const Entry& e, Moment now) const {
  TaskInfo info;
  info.descriptor = e.descriptor;
  info.descriptor.paused_from = roster_.paused_from(e.ref);
  info.state = roster_.state(e.ref);
  info.attempts = roster_.attempts(e.ref);
  info.progress = e.progress;
  info.note = e.note;
  if (info.state == TaskState::kFailed || info.state == TaskState::kCancelled) info.error = e.error;
  info.submitted = std::chrono::nanoseconds(e.submitted.ns);
  info.ready = std::chrono::nanoseconds(e.ready.ns);
  info.started = std::chrono::nanoseconds(e.started.ns);
  info.ended = std::chrono::nanoseconds(graph::is_terminal(info.state) ? e.ended.ns : 0);
  info.queue_wait = std::chrono::nanoseconds(e.queue_wait_ns);
  info.run_time = std::chrono::nanoseconds(e.run_ns);
  if (info.state == TaskState::kRunning) info.run_time += std::chrono::nanoseconds(now.ns - e.running_since.ns);
  info.worker = e.worker;
  return info;
}

Result<TaskInfo> Core::info(std::string_view id) const {
  sync::MutexLock lock(mutex_);
  ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
  return info_of(entry(ref), executor_->now());
}

Result<TaskState> Core::state(std::string_view id) const {
  sync::MutexLock lock(mutex_);
  ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
  return roster_.state(ref);
}

Result<std::shared_ptr<const Values>> Core::outputs(std::string_view id) const {
  static const auto kNothing = std::make_shared<const Values>();
  sync::MutexLock lock(mutex_);
  ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
  if (roster_.state(ref) != TaskState::kSucceeded) {
    return Error{ErrorCode::kFailedPrecondition, "'" + std::string(id) + "' is " +
                                                     std::string(graph::to_string(roster_.state(ref))) +
                                                     "; only a task that succeeded has outputs"};
  }
  return entry(ref).outputs == nullptr ? kNothing : entry(ref).outputs;
}

SchedulerStats Core::stats() const {
  sync::MutexLock lock(mutex_);
  const graph::ResourcesHeld& held = roster_.order().held();
  return {.tasks = removed_.tasks + entries_.size(),
          .succeeded = removed_.succeeded + roster_.count(TaskState::kSucceeded),
          .failed = removed_.failed + roster_.count(TaskState::kFailed),
          .cancelled = removed_.cancelled + roster_.count(TaskState::kCancelled),
          .forgotten = forgotten_,
          .cpu_hits = roster_.order().hits().cpu,
          .budget_hits = roster_.order().hits().memory,
          .cpu_slots_held = held.cpu_slots,
          .ram_mb_held = held.ram_mb,
          .vram_mb_held = held.vram_mb};
}

std::vector<TaskInfo> Core::report() const {
  sync::MutexLock lock(mutex_);
  std::vector<TaskInfo> all;
  all.reserve(entries_.size());
  const Moment now = executor_->now();
  for (const std::shared_ptr<Entry>& e : entries_) {
    if (!roster_.is_forgotten(e->ref)) all.push_back(info_of(*e, now));
  }
  return all;
}

Slice Core::slice_of(const Entry& e, TaskState state, Moment end) const {
  return {.task = e.ref.value() - 1,
          .worker = e.worker,
          .attempt = roster_.attempts(e.ref),
          .state = state,
          .begin_ns = e.slice_from->ns,
          .end_ns = std::max(end.ns, e.slice_from->ns)};
}

Result<void> Core::write_trace(std::ostream& out) const {
  std::vector<Slice> slices;
  std::vector<std::string> names;
  std::uint64_t dropped = 0;
  {
    sync::MutexLock lock(mutex_);
    if (!slices_.on()) {
      return Error{ErrorCode::kFailedPrecondition,
                   "this scheduler records no trace; create it with SchedulerConfig::trace_slices > 0"};
    }
    const Moment now = executor_->now();
    slices = slices_.slices();
    dropped = slices_.dropped();
    names.reserve(entries_.size());
    for (const std::shared_ptr<Entry>& e : entries_) {
      names.push_back(e->descriptor.task_id);
      if (e->slice_from) slices.push_back(slice_of(*e, TaskState::kRunning, now));
    }
  }
  const auto name = [&names](std::uint32_t task) { return names[task]; };
  return write_slices(slices, dropped, max_running_ == 1 ? 1 : config_.workers, name, out);
}

void Core::check_invariants() const {
  sync::MutexLock lock(mutex_);
  roster_.check_invariants();
}

namespace {

class Scheduler final : public IScheduler {
 public:
  explicit Scheduler(std::unique_ptr<Core> core) : core_(std::move(core)) {}
  ~Scheduler() override { core_->close(); }

  Result<void> submit(TaskDescriptor descriptor, Stage stage) override {
    std::vector<Submission> one;
    one.emplace_back(std::move(descriptor), std::move(stage));
    return core_->submit_all(std::move(one));
  }
  Result<void> submit_all(std::vector<Submission> tasks) override { return core_->submit_all(std::move(tasks)); }
  Result<void> pause(std::string_view id) override { return core_->pause(id); }
  Result<void> resume(std::string_view id) override { return core_->resume(id); }
  Result<void> cancel(std::string_view id) override { return core_->cancel(id); }
  Result<void> retry(std::string_view id) override { return core_->retry(id); }
  Result<void> forget(std::string_view id) override { return core_->forget(id); }
  std::size_t forget_ended() override { return core_->forget_ended(); }
  [[nodiscard]] Result<TaskState> state(std::string_view id) const override { return core_->state(id); }
  [[nodiscard]] Result<TaskInfo> info(std::string_view id) const override { return core_->info(id); }
  [[nodiscard]] Result<TaskDescriptor> describe(std::string_view id) const override {
    ROTA_TRY_ASSIGN(TaskInfo info, core_->info(id));
    return std::move(info.descriptor);
  }
  [[nodiscard]] Result<std::shared_ptr<const Values>> outputs(std::string_view id) const override {
    return core_->outputs(id);
  }
  [[nodiscard]] SchedulerStats stats() const override { return core_->stats(); }
  [[nodiscard]] std::vector<TaskInfo> report() const override { return core_->report(); }
  Result<void> write_trace(std::ostream& out) const override { return core_->write_trace(out); }
  Result<void> wait(std::string_view id) override { return core_->wait(id); }
  void wait_all() override { core_->wait_all(); }
  void observe(Observer observer) override { core_->observe(std::move(observer)); }
  void flush_events() override { core_->flush_events(); }

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<IScheduler> make_scheduler(std::unique_ptr<Core> core) {
  return std::make_unique<Scheduler>(std::move(core));
}

}  // namespace detail
}  // namespace rota::flow
