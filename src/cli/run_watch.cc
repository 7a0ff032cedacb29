#include "cli/run_watch.h"

#include <utility>

#include "rota/fiber/time.h"

namespace rota::cli {

RunWatch::RunWatch(std::unique_ptr<RunView> view) : view_(std::move(view)) {}

std::int64_t RunWatch::elapsed_ns() const { return watching_ ? fiber::now().count() - begin_ns_ : 0; }

void RunWatch::watch(RunShape shape, std::string key) {
  const sync::MutexLock lock(mutex_);
  facts_ = RunFacts(std::move(shape), std::move(key));
  watching_ = true;
  begin_ns_ = fiber::now().count();
}

void RunWatch::resume(model::WorkflowId workflow, const std::vector<std::size_t>& done) {
  const sync::MutexLock lock(mutex_);
  facts_.resume(workflow, done);
}

model::WorkflowId RunWatch::workflow() {
  const sync::MutexLock lock(mutex_);
  return facts_.workflow();
}

fleet::StopCause RunWatch::stopped() {
  const sync::MutexLock lock(mutex_);
  return facts_.stopped();
}

void RunWatch::on_record(const fleet::Record& record) {
  const sync::MutexLock lock(mutex_);
  if (!watching_) return;
  view_->record(record);
  const std::int64_t now_ns = elapsed_ns();
  for (const RunNews& news : facts_.see(record)) view_->show(news, facts_, now_ns);
  if (facts_.ended()) ended_.set();
}

void RunWatch::on_report(const std::string& worker, const model::Report& report) {
  const sync::MutexLock lock(mutex_);
  if (!watching_ || !facts_.has(report.id.task)) return;
  const std::int64_t now_ns = elapsed_ns();
  for (const RunNews& news : facts_.see(worker, report, now_ns)) view_->show(news, facts_, now_ns);
  view_->report(worker, report, facts_);
}

void RunWatch::show_earlier(const EarlierWork& earlier) {
  const sync::MutexLock lock(mutex_);
  view_->show_earlier(earlier, facts_);
}

bool RunWatch::wants_stop() {
  const sync::MutexLock lock(mutex_);
  return view_->wants_stop();
}

void RunWatch::refresh() {
  const sync::MutexLock lock(mutex_);
  view_->refresh(facts_, elapsed_ns());
}

void RunWatch::finish() {
  const sync::MutexLock lock(mutex_);
  view_->finish();
}

void RunWatch::say(const std::string& text) {
  const sync::MutexLock lock(mutex_);
  view_->say(text, facts_, elapsed_ns());
}

}  // namespace rota::cli
