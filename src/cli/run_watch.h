// RunWatch: observes the host for `rota run`, keeps the facts of the run and passes the news to a view.
//
// Until watch() it ignores what it sees.
//
// Thread safety: everything from any task; the host calls on_record() and on_report() from one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "cli/run_facts.h"
#include "cli/run_view.h"
#include "host/host.h"
#include "rota/fiber/sync.h"

namespace rota::cli {

class RunWatch final : public host::HostObserver {
 public:
  explicit RunWatch(std::unique_ptr<RunView> view);

  // From now on. The times that are shown count from here. See RunFacts for the key.
  void watch(RunShape shape, std::string key) ROTA_EXCLUDES(mutex_);
  // See RunFacts::resume().
  void resume(model::WorkflowId workflow, const std::vector<std::size_t>& done) ROTA_EXCLUDES(mutex_);

  void on_record(const fleet::Record& record) override ROTA_EXCLUDES(mutex_);
  void on_report(const std::string& worker, const model::Report& report) override ROTA_EXCLUDES(mutex_);

  // See RunView.
  void show_earlier(const EarlierWork& earlier) ROTA_EXCLUDES(mutex_);
  [[nodiscard]] bool wants_stop() ROTA_EXCLUDES(mutex_);
  void refresh() ROTA_EXCLUDES(mutex_);
  void finish() ROTA_EXCLUDES(mutex_);
  // A remark for people.
  void say(const std::string& text) ROTA_EXCLUDES(mutex_);

  // The workflow that is watched; none before it was submitted or resumed.
  [[nodiscard]] model::WorkflowId workflow() ROTA_EXCLUDES(mutex_);
  // Why the workflow ends early, if it does.
  [[nodiscard]] fleet::StopCause stopped() ROTA_EXCLUDES(mutex_);
  // Set when the workflow has ended.
  [[nodiscard]] fiber::Event& ended() { return ended_; }

 private:
  [[nodiscard]] std::int64_t elapsed_ns() const ROTA_REQUIRES(mutex_);

  fiber::Event ended_;
  sync::Mutex mutex_;
  const std::unique_ptr<RunView> view_;
  RunFacts facts_ ROTA_GUARDED_BY(mutex_);
  bool watching_ ROTA_GUARDED_BY(mutex_) = false;
  std::int64_t begin_ns_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rota::cli
