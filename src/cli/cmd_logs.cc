// `rota logs [WHERE] [TASK...]`: what tasks wrote, from their files, by the names of the tasks.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/log_follower.h"
#include "cli/log_source.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/task_choice.h"
#include "cli/timeline.h"
#include "fleet/explain.h"
#include "ledger/disk_reader.h"

namespace rota::cli {

namespace {

constexpr int kLookEveryMs = 100;

struct LogsOptions {
  std::string where;
  std::vector<std::string> tasks;
  std::uint32_t attempt = 0;  // 0: the latest.
  std::int64_t tail = -1;     // Lines; below 0: all.
  bool follow = false;
  bool failed = false;
  bool path = false;
  bool json = false;
};

// One task whose output is wanted.
struct Followed {
  model::TaskId task{};
  std::string name{};
  std::uint32_t attempt = 0;  // Whose log it is; 0: it has had none.
  LogFollower file{};
  std::string line{};  // Begun, and not ended yet.
  bool done = false;
};

class Logs {
 public:
  explicit Logs(const LogsOptions& options) : options_(options) {}

  Result<void> run() {
    std::string note;
    ROTA_TRY_ASSIGN(place_, find_place(options_.where, &note));
    say_note(note);
    ROTA_TRY_ASSIGN(source_, LogSource::open(place_.log));
    ProgressLine progress(!options_.json);
    ROTA_TRY_ASSIGN(log_, read_log(*source_, progress));
    progress.clear();
    ROTA_TRY(choose());
    several_ = followed_.size() > 1;
    if (options_.path) return print_paths();
    if (!options_.follow) return print_all();
    return follow();
  }

 private:
  [[nodiscard]] const fleet::State& state() const { return log_.brain.state(); }

  // Which tasks are meant.
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
        return Error{ErrorCode::kNotFound, options_.tasks.empty() ? "no task has failed" : "none of these has failed"};
      }
    }
    std::set<model::TaskId> seen;
    for (const model::TaskId task : tasks) {
      if (!seen.insert(task).second) continue;
      const std::uint32_t attempts = state().at(task).attempt;
      Followed each;
      each.task = task;
      each.name = state().at(task.workflow()).name_of(state().at(task));
      if (options_.attempt > attempts && !options_.follow) {
        return Error{ErrorCode::kNotFound, "there is no attempt " + std::to_string(options_.attempt) + " of " +
                                               each.name + "; it has had " + std::to_string(attempts)};
      }
      followed_.push_back(std::move(each));
    }
    for (Followed& each : followed_) look(each);
    return {};
  }

  // Whose log is to be read now.
  void look(Followed& each) {
    const std::uint32_t latest = state().at(each.task).attempt;
    const std::uint32_t wanted = options_.attempt > 0 ? options_.attempt : latest;
    if (wanted == 0 || wanted > latest || wanted == each.attempt) return;
    each.attempt = wanted;
    // Of tasks that were merged, the one that led them has the log.
    const Attempt* attempt = log_.timeline.find(each.task, wanted);
    const model::TaskId owner = attempt == nullptr ? each.task : attempt->log_task;
    const std::uint32_t number = attempt == nullptr ? wanted : attempt->log_attempt;
    each.file = LogFollower(place_.folder + "/logs/" + log_name(owner.value(), number));
  }

  // Why there is nothing to show.
  std::string why_none(const Followed& each) const {
    const fleet::Task& task = state().at(each.task);
    if (each.attempt == 0) {
      const Result<fleet::Explanation> why = fleet::explain(state(), each.task);
      return each.name + " has not run: " + (why.ok() ? why->sentence : "it waits");
    }
    const std::string attempt = "attempt " + std::to_string(each.attempt) + " of " + each.name;
    if (task.at_worker && each.attempt == task.attempt) return attempt + " waits at its worker for room";
    const bool runs = task.state == graph::TaskState::kRunning && each.attempt == task.attempt;
    return attempt + (runs ? " has written nothing yet" : " wrote nothing");
  }

  void say_none(const Followed& each) const {
    if (!options_.json) {
      say_note(why_none(each));
      return;
    }
    std::string out = head_of(each) + ",\"note\":";
    append_json_string(out, why_none(each));
    std::printf("%s}\n", out.c_str());
  }

  std::string head_of(const Followed& each) const {
    std::string out = "{\"task\":\"" + each.task.to_string() + "\",\"name\":";
    append_json_string(out, each.name);
    return out + ",\"attempt\":" + std::to_string(each.attempt);
  }

  void print_line(const Followed& each, std::string_view line) const {
    if (options_.json) {
      std::string out = head_of(each) + ",\"line\":";
      append_json_string(out, line);
      std::printf("%s}\n", out.c_str());
      return;
    }
    std::fwrite(each.name.data(), 1, each.name.size(), stdout);
    std::fputs(" | ", stdout);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  }

  void print(Followed& each, std::string_view bytes) {
    if (!several_ && !options_.json) {
      std::fwrite(bytes.data(), 1, bytes.size(), stdout);
      return;
    }
    for (std::size_t end = 0; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
      each.line += bytes.substr(0, end);
      print_line(each, each.line);
      each.line.clear();
    }
    each.line += bytes;
  }

  void finish_line(Followed& each) {
    if (!each.line.empty()) print_line(each, std::exchange(each.line, {}));
  }

  Result<void> print_paths() {
    std::set<std::string> shown;
    for (const Followed& each : followed_) {
      const std::string& path = each.file.path();
      if (path.empty() || !std::filesystem::exists(path)) {
        if (!several_) say_none(each);
        continue;
      }
      if (!shown.insert(path).second) continue;
      if (options_.json) {
        std::string out = head_of(each) + ",\"path\":";
        append_json_string(out, path);
        std::printf("%s}\n", out.c_str());
      } else {
        std::printf("%s\n", path.c_str());
      }
    }
    return {};
  }

  // All that a log has. How many bytes those were.
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
    if (options_.tail >= 0) print(each, last_lines(all, static_cast<std::size_t>(options_.tail)));
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
      // Whoever asked for all of them does not want a line for each that was silent.
      if (!options_.tasks.empty() || !several_) say_none(each);
    }
    if (options_.tasks.empty() && several_ && silent == followed_.size()) {
      say_note("none of " + std::to_string(followed_.size()) + " tasks has written anything");
    }
    return {};
  }

  // Until all of them have ended, or nobody runs them any more. Every round reads what is new in the log, then in the
  // files: so a task that the log says has ended has all of its output in its file.
  Result<void> follow() {
    for (Followed& each : followed_) {
      if (!each.file.path().empty()) ROTA_TRY(print_one(each));
      if (!several_ && each.attempt == 0) say_none(each);
    }
    for (;;) {
      ROTA_TRY_ASSIGN(const std::optional<std::string> writer, ledger::DiskReader::writer_of(place_.log));
      ROTA_TRY(source_->refresh());
      ROTA_TRY(read_more(*source_, log_));
      bool open = false;
      for (Followed& each : followed_) {
        if (each.done) continue;
        ROTA_TRY(follow_one(each));
        open = open || !each.done;
      }
      std::fflush(stdout);
      if (!open) return {};
      if (!writer) {
        say_note("it has not ended, but nobody runs it any more; `rota run` goes on with it");
        return {};
      }
      ::poll(nullptr, 0, kLookEveryMs);
    }
  }

  Result<void> follow_one(Followed& each) {
    if (state().find(each.task) == nullptr) {  // Its workflow was forgotten.
      each.done = true;
      return {};
    }
    for (;;) {
      const std::uint32_t before = each.attempt;
      const fleet::Task& task = state().at(each.task);
      const bool ended = graph::is_terminal(task.state);
      const bool over = before > 0 && (task.attempt > before || ended);
      for (bool more = !each.file.path().empty(); more;) {
        ROTA_TRY_ASSIGN(const std::string bytes, over ? each.file.rest() : each.file.more());
        print(each, bytes);
        more = !bytes.empty();
      }
      if (over || ended) finish_line(each);
      look(each);
      if (each.attempt == before) {
        each.done = ended || (options_.attempt > 0 && over);
        if (each.done && before == 0 && !several_) say_none(each);
        return {};
      }
      if (before > 0) say_note(each.name + ": attempt " + std::to_string(before) + " is over; the next one follows");
    }
  }

  const LogsOptions& options_;
  Place place_;
  std::unique_ptr<LogSource> source_;
  RunLog log_;
  std::vector<Followed> followed_;
  bool several_ = false;
};

}  // namespace

void add_logs(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("logs", "Print what tasks wrote");
  auto options = std::make_shared<LogsOptions>();
  add_where(*verb, options->where);
  verb->add_option("TASK", options->tasks,
                   "wf-1.3, train[2], train: all of that stage; nightly/train: of that workflow. Otherwise all tasks");
  verb->add_option("--attempt", options->attempt, "of that attempt; otherwise of the latest")
      ->option_text("N")
      ->check(CLI::PositiveNumber);
  verb->add_flag("-f,--follow", options->follow, "go on until the tasks have ended");
  verb->add_option("--tail", options->tail, "the last so many lines of each")
      ->option_text("N")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--failed", options->failed, "only of tasks that failed");
  verb->add_flag("--path", options->path, "where the logs are, instead of what is in them");
  verb->add_flag("--json", options->json, "one line of a log a line, for programs");
  verb->footer(
      "Lines of several tasks have their names in front of them. Of a task that wrote more than is kept there is the\n"
      "first and the last half.\n"
      "\n"
      "Examples:\n"
      "  rota logs train                        # of the latest run in this folder\n"
      "  rota logs nightly.yaml 'train[3]' -f   # follow it until it has ended\n"
      "  rota logs --failed --tail 20           # what went wrong");
  verb->callback([&exit, options] {
    sort_out(options->where, options->tasks);
    Result<void> done = Logs(*options).run();
    std::fflush(stdout);
    exit.status = done.ok() ? 0 : report(done.error());
  });
}

}  // namespace rota::cli
