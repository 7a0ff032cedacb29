#include "cli/run_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "fleet/text.h"
#include "rota/clock.h"
#include "rota/fiber/time.h"

namespace rota::cli {

using bus::ReportKind;

namespace {

constexpr std::size_t kBlockTasks = 10;
constexpr std::size_t kBar = 20;

std::string bar(std::uint64_t part, std::uint64_t whole) {
  const std::size_t full = whole == 0 ? 0 : static_cast<std::size_t>(std::min(part, whole) * kBar / whole);
  return "[" + std::string(full, '#') + std::string(kBar - full, '.') + "]";
}

// A line of the block must stay one line, or it could not be erased.
std::size_t columns_of(std::FILE* out) {
  struct winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

std::string_view kind_name(ReportKind kind) {
  switch (kind) {
    case ReportKind::kStarted:
      return "started";
    case ReportKind::kProgress:
      return "progress";
    case ReportKind::kCheckpoint:
      return "checkpoint";
    case ReportKind::kLog:
      return "log";
    case ReportKind::kCache:
      return "cache";
    case ReportKind::kOutput:
      return "output";
    case ReportKind::kSucceeded:
      return "succeeded";
    case ReportKind::kFailed:
      return "failed";
    case ReportKind::kCancelled:
      return "cancelled";
    case ReportKind::kPreempted:
      return "preempted";
  }
  return "unknown";
}

}  // namespace

std::string for_a_terminal(std::string_view line) {
  // Of what was written over, the last is meant to be seen; a tab is a blank.
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (const std::size_t again = line.rfind('\r'); again != std::string_view::npos) line.remove_prefix(again + 1);
  std::string shown(line);
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  for (std::size_t i = 0; i + 1 < shown.size(); ++i) {  // U+0080 to U+009F are control characters, too.
    const auto second = static_cast<unsigned char>(shown[i + 1]);
    if (shown[i] == '\xc2' && second >= 0x80 && second < 0xa0) shown.replace(i, 2, "?");
  }
  return printable(shown, shown.size());
}

RunView::RunView(Style style, std::FILE* out, std::vector<std::string> names, std::string key)
    : style_(style),
      out_(out),
      terminal_(::isatty(::fileno(out)) == 1),
      names_(std::move(names)),
      key_(std::move(key)),
      begin_ns_(fiber::now().count()),
      times_(names_.size()) {}

std::int64_t RunView::elapsed_ns() const { return fiber::now().count() - begin_ns_; }

void RunView::adopt(model::WorkflowId workflow, std::size_t done) {
  const sync::MutexLock lock(mutex_);
  workflow_ = workflow;
  done_ = done_before_ = done;
}

model::WorkflowId RunView::workflow() {
  const sync::MutexLock lock(mutex_);
  return workflow_;
}

// ------------------------------------------------------------------------------------------------------------- events

void RunView::on_record(const fleet::Record& record) {
  const sync::MutexLock lock(mutex_);
  for (const fleet::Event& event : record.events) {
    if (style_ == Style::kJson) {
      std::string text = fleet::to_json(event);
      text.insert(
          1, "\"record\":" + std::to_string(record.index) + ",\"wall_ns\":" + std::to_string(record.wall_ns) + ",");
      text.push_back('\n');
      std::fputs(text.c_str(), out_);
    }
    on(event, record);
  }
  if (style_ == Style::kJson) std::fflush(out_);
}

void RunView::on(const fleet::Event& event, const fleet::Record& record) {
  if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
    const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command);
    if (submit != nullptr && submit->key == key_) workflow_ = accepted->workflow;
  } else if (const auto* warned = std::get_if<fleet::PlacementWarned>(&event)) {
    if (warned->workflow == workflow_) line("warning: no worker here can run it: " + warned->requirement);
  } else if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
    if (!is_mine(succeeded->task)) return;
    ++done_;
    const Times& times = times_[succeeded->task.index()];
    const auto* report = std::get_if<fleet::ReportSucceeded>(&record.command);
    const bool cached = report != nullptr && report->cached && report->task == succeeded->task;
    if (cached) ++cached_;
    if (cached && style_ == Style::kPlain) {
      line("cached   " + names_[succeeded->task.index()] + "  " + printable(report->note, 300));
    } else if (style_ == Style::kPlain) {
      line("done     " + names_[succeeded->task.index()] + "  " + short_time(elapsed_ns() - times.began_ns));
    }
  } else if (const auto* skipped = std::get_if<fleet::TaskSkipped>(&event)) {
    if (!is_mine(skipped->task)) return;
    ++done_;
    if (style_ == Style::kPlain) line("skipped  " + names_[skipped->task.index()]);
  } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
    if (!is_mine(failed->task)) return;
    ++done_;
    ++failed_;
    line("FAILED   " + names_[failed->task.index()] + "  " + printable(failed->message, 300));
  } else if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&event)) {
    if (!is_mine(cancelled->task)) return;
    ++done_;
    if (style_ == Style::kPlain) line("cancelled " + names_[cancelled->task.index()]);
  } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
    if (!is_mine(requeued->task)) return;
    running_.erase(requeued->task.index());
    if (requeued->reason != fleet::RequeueReason::kFailed) return;
    const auto* why = std::get_if<fleet::ReportFailed>(&record.command);
    std::string text = "retry    " + names_[requeued->task.index()];
    if (requeued->not_before_ns > record.wall_ns) text += " in " + short_time(requeued->not_before_ns - record.wall_ns);
    if (why != nullptr && why->task == requeued->task) text += "  " + printable(why->message, 300);
    line(text);
  } else if (const auto* over = std::get_if<fleet::WorkflowEnded>(&event)) {
    if (over->workflow == workflow_) ended_.set();
  }
}

void RunView::on_report(const std::string& worker, const bus::Report& report) {
  const sync::MutexLock lock(mutex_);
  const model::TaskId task(report.task);
  if (!is_mine(task)) return;
  if (report.kind == ReportKind::kOutput) return output(worker, report);
  if (is_final(report.kind)) output_ends(worker, report);
  if (style_ == Style::kJson) json_report(worker, report);
  Times& times = times_[task.index()];
  if (report.kind == ReportKind::kStarted) {
    times = {elapsed_ns(), 0};
    running_[task.index()] = {elapsed_ns(), 0, false, {}};
    if (style_ == Style::kPlain) {
      line("start    " + names_[task.index()] +
           (report.attempt > 1 ? "  (attempt " + std::to_string(report.attempt) + ")" : ""));
    }
  } else if (report.kind == ReportKind::kProgress) {
    Running& running = running_[task.index()];
    running.permille = report.permille;
    running.has_progress = true;
    running.text = printable(report.text, 40);
  } else if (report.kind == ReportKind::kLog) {
    line("log      " + names_[task.index()] + "  " + printable(report.text, 300));
  } else if (is_final(report.kind)) {
    // It succeeded, but: for example that it left processes behind.
    if (report.kind == ReportKind::kSucceeded && !report.text.empty()) {
      line("note     " + names_[task.index()] + "  " + printable(report.text, 300));
    }
    times.ended_ns = elapsed_ns();
    running_.erase(task.index());
  }
}

void RunView::json_report(const std::string& worker, const bus::Report& report) {
  const model::TaskId task(report.task);
  std::string text =
      "{\"report\":\"" + std::string(kind_name(report.kind)) + "\",\"task\":\"" + task.to_string() + "\",\"name\":";
  append_json_string(text, names_[task.index()]);
  text += ",\"attempt\":" + std::to_string(report.attempt) + ",\"worker\":";
  append_json_string(text, worker);
  if (report.kind == ReportKind::kProgress) text += ",\"permille\":" + std::to_string(report.permille);
  if (report.kind == ReportKind::kOutput) {
    text += report.from_stderr ? ",\"stream\":\"stderr\"" : ",\"stream\":\"stdout\"";
    if (report.dropped_bytes > 0) text += ",\"dropped_bytes\":" + std::to_string(report.dropped_bytes);
  }
  if (!report.text.empty() || report.kind == ReportKind::kOutput) {
    text += ",\"text\":";
    append_json_string(text, report.text);
  }
  if (!report.note.empty()) {
    text += ",\"cached\":" + std::string(report.cached ? "true" : "false") + ",\"cache\":";
    append_json_string(text, report.note);
  }
  text += "}\n";
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void RunView::output(const std::string& worker, const bus::Report& report) {
  const std::uint32_t index = model::TaskId(report.task).index();
  std::string& begun = lines_[{index, report.from_stderr}];
  if (report.dropped_bytes > 0) {
    if (!begun.empty()) output_line(worker, report, report.from_stderr, std::exchange(begun, {}));
    if (style_ == Style::kJson) {
      bus::Report dropped = report;
      dropped.text.clear();
      json_report(worker, dropped);
    } else {
      line(names_[index] + " ! [" + std::to_string(report.dropped_bytes) +
           " bytes are not shown here: it writes faster than is shown]");
    }
  }
  std::string_view left = report.text;
  while (!left.empty()) {
    const std::size_t end = left.find('\n');
    const std::size_t take = std::min({end, left.size(), kLongestLine - begun.size()});
    begun.append(left.substr(0, take));
    left.remove_prefix(take);
    if (!left.empty()) {  // The line ends, or is as long as it may be.
      if (left.front() == '\n') left.remove_prefix(1);
      output_line(worker, report, report.from_stderr, std::exchange(begun, {}));
    }
  }
}

void RunView::output_ends(const std::string& worker, const bus::Report& report) {
  for (const bool from_stderr : {false, true}) {
    const auto begun = lines_.find({model::TaskId(report.task).index(), from_stderr});
    if (begun == lines_.end()) continue;
    if (!begun->second.empty()) output_line(worker, report, from_stderr, begun->second);
    lines_.erase(begun);
  }
}

void RunView::output_line(const std::string& worker, const bus::Report& report, bool from_stderr,
                          std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (style_ == Style::kJson) {
    bus::Report one = report;
    one.kind = ReportKind::kOutput;
    one.from_stderr = from_stderr;
    one.dropped_bytes = 0;
    one.note.clear();
    one.text = text;
    return json_report(worker, one);
  }
  const std::string prefix = names_[model::TaskId(report.task).index()] + (from_stderr ? " ! " : " | ");
  line(prefix + (terminal_ ? for_a_terminal(text) : std::string(text)));
}

void RunView::correct(RunReport& report) {
  const sync::MutexLock lock(mutex_);
  for (std::size_t i = 0; i < std::min(report.tasks.size(), times_.size()); ++i) {
    const Times& times = times_[i];
    TaskRow& task = report.tasks[i];
    if (times.ended_ns <= times.began_ns || !graph::is_terminal(task.state)) continue;
    const std::int64_t run_ns = times.ended_ns - times.began_ns;
    if (task.run_ns > run_ns) task.wait_ns += task.run_ns - run_ns;
    task.run_ns = run_ns;
  }
  report.elapsed_ns = elapsed_ns();
}

// ------------------------------------------------------------------------------------------------------------ drawing

void RunView::say(const std::string& text) {
  const sync::MutexLock lock(mutex_);
  line(text);
}

void RunView::line(std::string_view text) {
  if (style_ == Style::kJson) return;
  erase_block();
  std::fprintf(out_, "%8.2fs  %.*s\n", static_cast<double>(elapsed_ns()) / 1e9, static_cast<int>(text.size()),
               text.data());
  if (style_ == Style::kLive) draw_block();
  std::fflush(out_);
}

void RunView::refresh() {
  if (style_ != Style::kLive) return;
  const sync::MutexLock lock(mutex_);
  erase_block();
  draw_block();
  std::fflush(out_);
}

void RunView::finish() {
  const sync::MutexLock lock(mutex_);
  erase_block();
  std::fflush(out_);
}

void RunView::erase_block() {
  if (block_lines_ == 0) return;
  std::fprintf(out_, "\x1b[%zuA\r\x1b[J", block_lines_);
  block_lines_ = 0;
}

void RunView::draw_block() {
  const std::int64_t now = elapsed_ns();
  const std::size_t columns = columns_of(out_);
  const auto block_line = [&](std::string text) ROTA_REQUIRES(mutex_) {
    if (text.size() >= columns) {
      text.resize(columns - 1);  // Then whole characters only.
      while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.pop_back();
    }
    text.push_back('\n');
    std::fputs(text.c_str(), out_);
    ++block_lines_;
  };
  for (const auto& [index, running] : running_) {
    if (block_lines_ == kBlockTasks) {
      block_line("  ... and " + std::to_string(running_.size() - kBlockTasks) + " more");
      break;
    }
    std::string name = printable(names_[index], 30);
    name.resize(std::max<std::size_t>(name.size(), 30), ' ');
    std::string time = short_time(now - running.since_ns);
    time.insert(0, time.size() < 7 ? 7 - time.size() : 0, ' ');
    const std::string gauge = running.has_progress ? bar(running.permille, 1000) : "[" + std::string(kBar, ' ') + "]";
    block_line("  " + gauge + " " + name + " " + time + " " + running.text);
  }
  std::string total = bar(done_, names_.size()) + " " + std::to_string(done_) + "/" + std::to_string(names_.size());
  if (cached_ > 0) total += ", " + std::to_string(cached_) + " cached";
  if (failed_ > 0) total += ", " + std::to_string(failed_) + " failed";
  // As fast as until now.
  if (const std::size_t fresh = done_ - done_before_; done_ > done_before_ && done_ < names_.size()) {
    const auto left = static_cast<std::int64_t>(names_.size() - done_);
    total += ", about " + short_time(now / static_cast<std::int64_t>(fresh) * left) + " left";
  }
  block_line("  " + total + "  " + short_time(now));
}

}  // namespace rota::cli
