// RunView: shows the news of a run while it runs.
//
//   plain  one line per thing that happens; for pipes and files
//   live   on a terminal: a line for each problem, and below them a block that is drawn again: the stages, the running
//          tasks, the totals and the time that is left
//   json   every event of the log and every report, one JSON object per line
//   quiet  nothing
//
// Thread safety: none; RunWatch calls it under its lock.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/run_facts.h"
#include "model/outcome.h"

namespace rota::cli {

// What earlier processes have done for the run that begins (RunSetup::whole_output).
struct EarlierWork {
  std::vector<std::uint32_t> done{};  // Tasks that have ended already: there will be no news of them.
  // Tasks that are done, or whose earlier result will be kept, and whose whole output is still there: nobody has read
  // it. By task of this run.
  std::map<std::uint32_t, model::AttemptId> unread{};
};

class RunView {
 public:
  virtual ~RunView() = default;

  // Before the first news.
  virtual void show_earlier(const EarlierWork& earlier, const RunFacts& facts) { (void)earlier, (void)facts; }
  // The run is to be cancelled, because what it writes cannot be shown any more.
  [[nodiscard]] virtual bool wants_stop() const { return false; }

  // A record or a report as it came; then show() is called with what it means.
  virtual void record(const fleet::Record& record) { (void)record; }
  virtual void report(const std::string& worker, const model::Report& report, const RunFacts& facts) {
    (void)worker, (void)report, (void)facts;
  }
  virtual void show(const RunNews& news, const RunFacts& facts, std::int64_t now_ns) {
    (void)news, (void)facts, (void)now_ns;
  }
  // A remark for people.
  virtual void say(const std::string& text, const RunFacts& facts, std::int64_t now_ns) {
    (void)text, (void)facts, (void)now_ns;
  }
  // Called several times per second.
  virtual void refresh(const RunFacts& facts, std::int64_t now_ns) { (void)facts, (void)now_ns; }
  // The run is over: removes what is drawn again.
  virtual void finish() {}
};

// "done     train  1.24s". `terminal`: the text must not contain anything that a terminal would obey.
[[nodiscard]] std::string news_line(const RunNews& news, bool terminal);

// REQUIRES: out outlives it.
[[nodiscard]] std::unique_ptr<RunView> make_plain_view(std::FILE* out);
// `verbose`: a line for each start and end as well. REQUIRES: terminal_of(out).escapes.
[[nodiscard]] std::unique_ptr<RunView> make_live_view(std::FILE* out, bool verbose = false);
[[nodiscard]] std::unique_ptr<RunView> make_json_view(std::FILE* out);
[[nodiscard]] std::unique_ptr<RunView> make_quiet_view();

}  // namespace rota::cli
