// `rota logs [WHERE] [TASK...]`: prints or follows what the programs of tasks wrote.
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/remote_host.h"
#include "cli/subcommands.h"
#include "cli/task_choice.h"
#include "cli/timeline.h"
#include "fleet/explain.h"
#include "host/log_follower.h"

namespace rota::cli {

namespace {

constexpr int kLookEveryMs = 100;
constexpr int kAskEveryMs = 500;  // A host over HTTP.

struct LogsOptions {
  std::string where;
  std::vector<std::string> tasks;
  std::int64_t attempt = 0;  // 0: the latest.
  std::int64_t tail = -1;    // Lines; below 0: all.
  bool follow = false;
  bool failed = false;
  bool path = false;
};

// One task whose log is shown.
struct Followed {
  LogOwner owner{};  // The attempt is the one whose log is shown.
  host::LogFollower file{};
  std::string line{};  // The part of an unfinished line that was read.
  bool done = false;
};

class Logs {
 public:
  Logs(const LogsOptions& options, Output& output) : options_(options), output_(output) {}

  Result<void> run() {
    std::string note;
    ROTA_TRY_ASSIGN(place_, find_place(options_.where, &note));
    output_.note(note);
    if (is_url(place_.log)) {
      ROTA_TRY_ASSIGN(host_, RemoteHost::open(place_.log));
    }
    ROTA_TRY_ASSIGN(source_, LogSource::open(place_.log));
    ProgressLine progress(output_.shows_progress());
    ROTA_TRY_ASSIGN(log_, read_log(*source_, progress));
    progress.clear();
    ROTA_TRY(choose());
    several_ = followed_.size() > 1;
    by_line_ = several_ || !output_.shows_raw_logs();
    if (options_.path) return print_paths();
    if (!options_.follow) return print_all();
    return follow();
  }

 private:
  [[nodiscard]] const fleet::State& state() const { return log_.brain.state(); }

  // Finds the tasks that the user named.
  Result<void> choose() {
    std::vector<model::TaskId> tasks;
    for (const std::string& name : options_.tasks) {
      ROTA_TRY_ASSIGN(const std::vector<model::TaskId> found, find_tasks(state(), name));
      tasks.insert(tasks.end(), found.begin(), found.end());
    }
    if (options_.tasks.empty()) {
      tasks = tasks_of(state(), latest_workflow(state()));
      if (tasks.empty()) return Error{ErrorCode::kNotFound, place_.name + ": no workflow was submitted yet"};
    }
    if (options_.failed) {
      std::erase_if(tasks, [&](model::TaskId id) { return state().at(id).state != graph::TaskState::kFailed; });
      if (tasks.empty()) {
        return Error{ErrorCode::kNotFound,
                     options_.tasks.empty() ? "no task has failed" : "none of these tasks has failed"};
      }
    }
    std::set<model::TaskId> seen;
    for (const model::TaskId task : tasks) {
      if (!seen.insert(task).second) continue;
      const std::uint32_t attempts = state().at(task).attempt.value();
      Followed each;
      each.owner.task = task;
      each.owner.name = state().at(task.workflow()).name_of(state().at(task));
      if (options_.attempt > attempts && !options_.follow) {
        return Error{ErrorCode::kNotFound, each.owner.name + " has no attempt " + std::to_string(options_.attempt) +
                                               "; it has had " + std::to_string(attempts)};
      }
      followed_.push_back(std::move(each));
    }
    for (Followed& each : followed_) look(each);
    return {};
  }

  // Chooses the attempt whose log is read from now on.
  void look(Followed& each) {
    using model::AttemptNumber;
    const AttemptNumber latest = state().at(each.owner.task).attempt;
    const AttemptNumber wanted =
        options_.attempt > 0 ? AttemptNumber(static_cast<std::uint32_t>(options_.attempt)) : latest;
    if (wanted.is_none() || wanted > latest || wanted == each.owner.attempt) return;
    each.owner.attempt = wanted;
    // Merged tasks run as one execution; the log is the leading task's.
    const Attempt* attempt = log_.timeline.find(each.owner.task, wanted);
    const model::TaskId owner = attempt == nullptr ? each.owner.task : attempt->log_task;
    const AttemptNumber number = attempt == nullptr ? wanted : attempt->log_attempt;
    if (host_ == nullptr) {
      each.file = host::LogFollower(place_.folder + "/logs/" + log_name(owner, number));
      return;
    }
    const std::string target =
        "/v1/tasks/" + owner.to_string() + "/logs?attempt=" + std::to_string(number.value()) + "&offset=";
    each.file = host::LogFollower(
        host_->url() + "/v1/tasks/" + owner.to_string() + "/logs?attempt=" + std::to_string(number.value()),
        [host = host_, target](std::uint64_t from, std::size_t most) {
          return read_remote_log(*host, target, from, most);
        });
  }

  // A host returns at most 1 MiB at a time.
  static Result<std::string> read_remote_log(RemoteHost& host, const std::string& target, std::uint64_t from,
                                             std::size_t most) {
    std::string bytes;
    while (bytes.size() < most) {
      const std::size_t wanted = std::min<std::size_t>(most - bytes.size(), std::size_t{1} << 20);
      ROTA_TRY_ASSIGN(
          const net::HttpResponse response,
          host.ask({.target = target + std::to_string(from + bytes.size()) + "&bytes=" + std::to_string(wanted)}));
      bytes += response.body;
      if (response.body.size() < wanted) break;
    }
    return bytes;
  }

  // Why there is no log to show.
  std::string why_none(const Followed& each) const {
    const fleet::Task& task = state().at(each.owner.task);
    if (each.owner.attempt.is_none()) {
      const Result<fleet::Explanation> why = fleet::explain(state(), each.owner.task);
      return each.owner.name + " has not run: " + (why.ok() ? why->sentence : "it waits");
    }
    const std::string attempt = "attempt " + std::to_string(each.owner.attempt.value()) + " of " + each.owner.name;
    if (task.at_worker && each.owner.attempt == task.attempt)
      return attempt + " waits at its worker for free resources";
    const bool runs = task.state == graph::TaskState::kRunning && each.owner.attempt == task.attempt;
    return attempt + (runs ? " has written nothing yet" : " wrote nothing");
  }

  void say_none(const Followed& each) const { output_.log_note(each.owner, why_none(each)); }

  void print(Followed& each, std::string_view bytes) {
    if (!by_line_) return output_.log_bytes(bytes);
    for (std::size_t end = 0; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
      each.line += bytes.substr(0, end);
      output_.log_line(each.owner, each.line);
      each.line.clear();
    }
    each.line += bytes;
  }

  void finish_line(Followed& each) {
    if (!each.line.empty()) output_.log_line(each.owner, std::exchange(each.line, {}));
  }

  Result<void> print_paths() {
    std::set<std::string> shown;
    for (const Followed& each : followed_) {
      const std::string& path = each.file.path();
      if (path.empty() || (host_ == nullptr && !std::filesystem::exists(path))) {
        if (!several_) say_none(each);
        continue;
      }
      if (!shown.insert(path).second) continue;
      output_.log_path(each.owner, path);
    }
    return {};
  }

  // Prints the whole log, or its tail. Returns the size of the log.
  Result<std::size_t> print_one(Followed& each) {
    std::string all;
    std::size_t size = 0;
    for (;;) {
      ROTA_TRY_ASSIGN(const std::string bytes, each.file.more());
      if (bytes.empty()) break;
      size += bytes.size();
      if (options_.tail < 0) {
        print(each, bytes);
      } else {
        all += bytes;
      }
    }
    if (options_.tail >= 0) print(each, host::last_lines(all, static_cast<std::size_t>(options_.tail)));
    return size;
  }

  Result<void> print_all() {
    std::set<std::string> shown;
    std::size_t silent = 0;
    for (Followed& each : followed_) {
      if (!each.file.path().empty() && !shown.insert(each.file.path()).second) continue;
      std::size_t size = 0;
      if (!each.file.path().empty()) {
        ROTA_TRY_ASSIGN(size, print_one(each));
      }
      finish_line(each);
      if (size > 0) continue;
      ++silent;
      // Without names, tasks that wrote nothing are not mentioned one by one.
      if (!options_.tasks.empty() || !several_) say_none(each);
    }
    if (options_.tasks.empty() && several_ && silent == followed_.size()) {
      output_.note("none of the " + std::to_string(followed_.size()) + " tasks has written anything");
    }
    return {};
  }

  // Prints until all tasks have ended, or until no process runs them. Every round reads the new records of the ledger
  // first and the files second: when the ledger says that a task has ended, all of its output is in its file.
  Result<void> follow() {
    const auto say = [this](const std::string& text) {
      output_.flush();
      output_.note(text);
    };
    source_->keep_trying(say);
    if (host_ != nullptr) host_->keep_trying(say);
    for (Followed& each : followed_) {
      if (!each.file.path().empty()) ROTA_TRY(print_one(each));
      if (!several_ && each.owner.attempt.is_none()) say_none(each);
    }
    for (;;) {
      ROTA_TRY_ASSIGN(const std::optional<std::string> writer, writer_of(place_.log));
      ROTA_TRY(source_->refresh());
      ROTA_TRY(read_more(*source_, log_));
      bool open = false;
      for (Followed& each : followed_) {
        if (each.done) continue;
        ROTA_TRY(follow_one(each));
        open = open || !each.done;
      }
      output_.flush();
      if (!open) return {};
      if (!writer) {
        output_.note("the run was interrupted: no process runs it now; `rota run` resumes it");
        return {};
      }
      ::poll(nullptr, 0, host_ == nullptr ? kLookEveryMs : kAskEveryMs);
    }
  }

  Result<void> follow_one(Followed& each) {
    if (state().find(each.owner.task) == nullptr) {  // Its workflow was forgotten.
      each.done = true;
      return {};
    }
    for (;;) {
      const model::AttemptNumber before = each.owner.attempt;
      const fleet::Task& task = state().at(each.owner.task);
      const bool ended = graph::is_terminal(task.state);
      const bool over = !before.is_none() && (task.attempt > before || ended);
      for (bool more = !each.file.path().empty(); more;) {
        ROTA_TRY_ASSIGN(const std::string bytes, over ? each.file.rest() : each.file.more());
        print(each, bytes);
        more = !bytes.empty();
      }
      if (over || ended) finish_line(each);
      look(each);
      if (each.owner.attempt == before) {
        each.done = ended || (options_.attempt > 0 && over);
        if (each.done && before.is_none() && !several_) say_none(each);
        return {};
      }
      if (before.is_none()) continue;
      output_.note(each.owner.name + ": attempt " + std::to_string(before.value()) +
                   " has ended; the log of the next attempt follows");
    }
  }

  const LogsOptions& options_;
  Output& output_;
  Place place_;
  std::shared_ptr<RemoteHost> host_;  // Null for a place on this machine.
  std::unique_ptr<LogSource> source_;
  RunLog log_;
  std::vector<Followed> followed_;
  bool several_ = false;
  bool by_line_ = false;
};

}  // namespace

Subcommand logs_subcommand() {
  auto options = std::make_shared<LogsOptions>();
  return {
      .name = "logs",
      .meaning = "Print what the programs of tasks wrote",
      .positionals = {where(&options->where),
                      positionals("TASK", &options->tasks,
                                  "wf-1.3, train[2], train (all tasks of that stage), nightly/train (of that "
                                  "workflow); default: all tasks")},
      .options = {number("--attempt", &options->attempt, 1, 1'000'000, "the log of that attempt; default: the latest"),
                  flag("-f,--follow", &options->follow, "continue until the tasks have ended"),
                  number("--tail", &options->tail, 0, 1'000'000'000, "only the last N lines of each log"),
                  flag("--failed", &options->failed, "only tasks that failed"),
                  flag("--path", &options->path, "print the paths of the logs instead of their contents")},
      .json = "print one JSON object per line of a log",
      .footer =
          "With several tasks, each line starts with the name of its task. If a task wrote more than is kept, the\n"
          "first and the last part of its output are kept. With -f, a host at a URL that stops answering is waited "
          "for.",
      .examples = {"rota logs train                        # of the latest run in this folder",
                   "rota logs nightly.yaml 'train[3]' -f   # follow it until it has ended",
                   "rota logs --failed --tail 20           # the last lines of each failed task"},
      .run = [options](Output& output) -> Result<int> {
        separate_where(options->where, options->tasks);
        Result<void> done = Logs(*options, output).run();
        output.flush();  // Before an error that goes to standard error.
        ROTA_TRY(std::move(done));
        return 0;
      }};
}

}  // namespace rota::cli
