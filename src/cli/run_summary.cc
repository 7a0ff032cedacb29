#include "cli/run_summary.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "cli/places.h"
#include "host/log_follower.h"

namespace rota::cli {

namespace {

constexpr std::size_t kTailLines = 10;
constexpr std::size_t kTailBytes = 4096;
constexpr std::size_t kShownFailures = 5;

}  // namespace

std::string log_end(const std::string& path, std::size_t lines) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  const std::size_t take = std::min(size, kTailBytes);
  file.seekg(static_cast<std::streamoff>(size - take));
  std::string text(take, '\0');
  file.read(text.data(), static_cast<std::streamsize>(take));
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return std::string(host::last_lines(text, lines));
}

namespace {

LogTail tail_of(const TaskRow& task, const std::string& logs) {
  LogTail tail{task.label(), task.message, logs + "/" + log_name(task.id, task.last_attempt), {}};
  tail.text = log_end(tail.log, kTailLines);
  return tail;
}

// The only task, apart from skipped ones, of the stages that no other stage needs; null if there are several.
const TaskRow* last_task(const RunReport& report) {
  std::vector<bool> needed(report.needs.size());
  for (const auto& needs : report.needs) {
    for (const std::uint32_t need : needs) needed[need] = true;
  }
  const TaskRow* last = nullptr;
  for (const TaskRow& task : report.tasks) {
    if (needed[task.stage] || task.skipped) continue;
    if (last != nullptr) return nullptr;
    last = &task;
  }
  return last;
}

}  // namespace

RunSummary summarize(RunReport report, std::string logs) {
  RunSummary summary;
  summary.report = std::move(report);
  summary.logs = std::move(logs);
  for (const TaskRow& task : summary.report.tasks) {
    if (task.state != graph::TaskState::kFailed) continue;
    if (summary.failures.size() < kShownFailures) {
      summary.failures.push_back(tail_of(task, summary.logs));
    } else {
      ++summary.more_failures;
    }
  }
  const TaskRow* last = last_task(summary.report);
  if (last != nullptr && last->state == graph::TaskState::kSucceeded) {
    LogTail tail = tail_of(*last, summary.logs);
    if (!tail.text.empty()) summary.result = std::move(tail);
  }
  return summary;
}

}  // namespace rota::cli
