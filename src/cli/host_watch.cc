#include "cli/host_watch.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"

namespace rota::cli {

namespace {

constexpr std::chrono::seconds kDensityEvery{10};

double fraction(std::int64_t billionths) { return static_cast<double>(billionths) / static_cast<double>(fleet::kOne); }

}  // namespace

HostWatch::HostWatch(const host::HostConfig& config, std::set<std::string> local)
    : local_(std::move(local)),
      output_(config.state + "/logs", config.output_most_bytes),
      density_path_(density_path(config)) {
  if (config.density) density_.emplace(config.density_bucket_sec);
}

void HostWatch::begin(const fleet::State& state) {
  std::map<model::WorkerId, std::string> names;
  state.each_worker([&names](const fleet::Worker& worker) { names[worker.id] = worker.spec.name; });
  const sync::MutexLock lock(mutex_);
  names_ = std::move(names);
  if (density_) density_->begin(state);
}

void HostWatch::on_record(const fleet::Record& record) {
  for (const fleet::Event& event : record.events) {
    if (const auto* registered = std::get_if<fleet::WorkerRegistered>(&event)) {
      const std::string& name = std::get<fleet::RegisterWorker>(record.command).worker.name;
      {
        const sync::MutexLock lock(mutex_);
        names_[registered->worker] = name;
      }
      ROTA_LOG(kInfo, "worker registered", {"worker", name}, {"id", registered->worker}, {"record", record.index});
    } else if (const auto* changed = std::get_if<fleet::WorkerChanged>(&event)) {
      log_worker(*changed);
    } else if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
      if (log_enabled(LogLevel::kInfo)) log_dispatch(*assigned);
    } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
      ROTA_LOG(kWarn, "task failed", {"task", failed->task.to_string()}, {"kind", to_string(failed->kind)},
               {"why", failed->message});
    } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
      ROTA_LOG(kInfo, "task requeued", {"task", requeued->task.to_string()}, {"reason", to_string(requeued->reason)});
    } else if (const auto* ended = std::get_if<fleet::WorkflowEnded>(&event)) {
      ROTA_LOG(kInfo, "workflow ended", {"workflow", ended->workflow}, {"outcome", to_string(ended->outcome)},
               {"record", record.index});
    } else if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
      ROTA_LOG(kInfo, "workflow accepted", {"workflow", accepted->workflow}, {"record", record.index});
    }
  }
  const sync::MutexLock lock(mutex_);
  if (density_) density_->see(record);
}

void HostWatch::log_dispatch(const fleet::TaskAssigned& assigned) {
  const fleet::Reasoning& why = assigned.reasoning;
  std::string name;
  {
    const sync::MutexLock lock(mutex_);
    if (const auto found = names_.find(assigned.worker); found != names_.end()) name = found->second;
  }
  ROTA_LOG(kInfo, "dispatch", {"task", assigned.task.to_string()}, {"attempt", assigned.attempt.value()},
           {"worker", name}, {"why", to_string(why.why)}, {"pool", why.candidates}, {"reuse_hits", why.reuse_hits},
           {"lambda", fraction(why.lambda)}, {"score", fraction(why.score)}, {"queued", assigned.queued},
           {"merged", assigned.members.size()});
}

void HostWatch::log_worker(const fleet::WorkerChanged& changed) {
  std::string name;
  {
    const sync::MutexLock lock(mutex_);
    if (const auto found = names_.find(changed.worker); found != names_.end()) name = found->second;
    if (changed.change == fleet::WorkerChange::kLeft) names_.erase(changed.worker);
  }
  if (changed.change == fleet::WorkerChange::kUnreachable) {
    ROTA_LOG(kWarn, "worker unreachable", {"worker", name});
  } else {
    ROTA_LOG(kInfo, "worker changed", {"worker", name}, {"change", to_string(changed.change)});
  }
}

void HostWatch::on_report(const std::string& worker, const model::Report& report) {
  if (local_.contains(worker)) return;
  if (const auto* output = std::get_if<model::Output>(&report.body)) output_.offer(report.id, *output);
}

void HostWatch::write_density() {
  const sync::MutexLock lock(mutex_);
  if (!density_ || !density_->is_changed()) return;
  if (const Result<void> written = density_->write(density_path_); !written.ok()) {
    ROTA_LOG(kWarn, "density not written", {"why", written.error().message});
  }
}

void HostWatch::run() {
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      nursery.launch([this] { output_.run(); });
      while (!closed_.wait_for(kDensityEvery)) write_density();
    });
  } catch (const fiber::Cancelled&) {
  }
  write_density();
}

void HostWatch::close() {
  output_.close();
  closed_.set();
}

}  // namespace rota::cli
