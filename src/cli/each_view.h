// EachView: prints what the commands of `rota each` write (Y-8).
//
// The output of a command is printed when the command has ended, whole and byte for byte: its standard output to `out`,
// then its error output to `err`, and nothing of another command in between. Commands follow each other in the order of
// their ends or, with `keep_order`, of their values. Of a command that is tried again only the last attempt is printed.
// It is read from files and never held in memory. Failures are always reported; remarks go to the Output.
//
// Thread safety: none; see RunView.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/output.h"
#include "cli/run_view.h"
#include "model/outcome.h"
#include "rota/result.h"

namespace rota::cli {

class EachView final : public RunView {
 public:
  struct Options {
    int out = 1;
    int err = 2;
    bool keep_order = false;
  };
  // `printed` becomes the first error of printing; then the run is cancelled, and what was not printed is kept for the
  // next run. REQUIRES: both references outlive it.
  EachView(const Options& options, Output& output, Result<void>& printed)
      : options_(options), output_(output), result_(printed) {}

  void show_earlier(const EarlierWork& earlier, const RunFacts& facts) override;
  [[nodiscard]] bool wants_stop() const override { return !result_.ok(); }
  void show(const RunNews& news, const RunFacts& facts, std::int64_t now_ns) override;
  void say(const std::string& text, const RunFacts& facts, std::int64_t now_ns) override;
  void finish() override;

 private:
  // The task has ended: its output is due.
  void ends(std::uint32_t index, const model::AttemptId& attempt);
  void print(const model::AttemptId& attempt);

  const Options options_;
  Output& output_;
  Result<void>& result_;
  std::string logs_;
  std::map<std::uint32_t, model::AttemptNumber> attempts_;  // Of tasks that have started and not ended.
  std::map<std::uint32_t, model::AttemptId> unread_;        // See EarlierWork; of tasks whose news has not come yet.
  // With keep_order: tasks that have ended and wait for an earlier one. Without an attempt: nothing is to be printed.
  std::map<std::uint32_t, model::AttemptId> ended_;
  std::uint32_t next_ = 0;  // With keep_order: the first task that has not been printed.
};

}  // namespace rota::cli
