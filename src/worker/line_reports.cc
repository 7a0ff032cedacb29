#include "worker/line_reports.h"

#include <algorithm>
#include <utility>

#include "worker/task_check.h"

namespace rota::worker {

using std::chrono::nanoseconds;

bool LineReports::admit(nanoseconds now) {
  if (now >= second_ends_) {
    tell_dropped();
    second_ends_ = now + std::chrono::seconds(1);
    lines_ = 0;
  }
  if (lines_ < kLinesPerSecond) {
    ++lines_;
    return true;
  }
  ++dropped_;
  return false;
}

void LineReports::tell_dropped() {
  if (dropped_ == 0) return;
  events_.on_log("on $ROTA_FD: " + std::to_string(std::exchange(dropped_, 0)) + " lines were not reported: at most " +
                 std::to_string(kLinesPerSecond) + " lines with log or cache are passed on per second");
}

void LineReports::take(Result<Line> line, nanoseconds now) {
  if (!line.ok()) {
    if (bad_lines_ >= kBadLinesReported) return;
    events_.on_log(line.error().message);
    if (++bad_lines_ == kBadLinesReported)
      events_.on_log("on $ROTA_FD: further lines that cannot be read are not reported");
    return;
  }
  switch (line->kind) {
    case Line::Kind::kProgress:
      progress_.value = {line->permille, std::move(line->text)};
      break;
    case Line::Kind::kCheckpoint:
      checkpoint_.value = std::move(line->text);
      break;
    case Line::Kind::kCheckpointFile:
      checkpoint_.value = "{\"file\":" + json_string(line->text) + "}";
      break;
    case Line::Kind::kLog:
      if (admit(now)) events_.on_log(line->text);
      break;
    case Line::Kind::kCache:
      if (admit(now)) events_.on_cached(line->text + ":" + line->name);
      break;
  }
  if (checkpoint_.value) send_due(now);  // Before the lines that follow it, unless it has to wait.
}

nanoseconds LineReports::due() const {
  nanoseconds due = nanoseconds::max();
  if (progress_.value) due = std::min(due, progress_.next_at);
  if (checkpoint_.value) due = std::min(due, checkpoint_.next_at);
  return due;
}

void LineReports::send_due(nanoseconds now) {
  if (checkpoint_.value && now >= checkpoint_.next_at) {
    checkpoint_.next_at = now + kCheckpointEvery;
    events_.on_checkpoint(*std::exchange(checkpoint_.value, std::nullopt));
  }
  if (progress_.value && now >= progress_.next_at) {
    progress_.next_at = now + Executor::kProgressEvery;
    const Progress progress = *std::exchange(progress_.value, std::nullopt);
    events_.on_progress(progress.permille, progress.text);
  }
}

void LineReports::finish() {
  send_due(nanoseconds::max() - std::chrono::hours(1));
  tell_dropped();
}

}  // namespace rota::worker
