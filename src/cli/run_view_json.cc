// The view for other software: one JSON object per line.
#include <string_view>

#include "base/json_writer.h"
#include "cli/run_view.h"
#include "fleet/text.h"

namespace rota::cli {

namespace {

using bus::ReportKind;

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

// The members of two objects, neither of which is empty, in one.
std::string merged(std::string first, std::string_view second) {
  first.back() = ',';
  return first.append(second.substr(1));
}

class JsonView final : public RunView {
 public:
  explicit JsonView(std::FILE* out) : out_(out) {}

  void record(const fleet::Record& record) override {
    std::string place;
    JsonWriter(place).begin_object().field("record", record.index).field("wall_ns", record.wall_ns).end_object();
    for (const fleet::Event& event : record.events) line(merged(place, fleet::to_json(event)));
    std::fflush(out_);
  }
  // Output is shown line by line, by show().
  void report(const std::string& worker, const bus::Report& report, const RunFacts& facts) override {
    if (report.kind == ReportKind::kOutput) return;
    const fleet::TaskId task(report.task);
    std::string text;
    JsonWriter json(text);
    begin(json, report.kind, task, facts.name(task), report.attempt, worker);
    if (report.kind == ReportKind::kProgress) json.field("permille", report.permille);
    if (!report.text.empty()) json.field("text", report.text);
    if (!report.note.empty()) json.field("cached", report.cached).field("cache", report.note);
    json.end_object();
    line(text);
    std::fflush(out_);
  }
  void show(const RunNews& news, const RunFacts& /*facts*/, std::int64_t /*now_ns*/) override {
    if (news.kind != RunNews::Kind::kOutput && news.kind != RunNews::Kind::kDropped) return;
    std::string text;
    JsonWriter json(text);
    begin(json, ReportKind::kOutput, news.task, news.name, news.attempt, news.worker);
    json.field("stream", news.from_stderr ? "stderr" : "stdout");
    if (news.bytes > 0) json.field("dropped_bytes", news.bytes);
    json.field("text", news.text).end_object();
    line(text);
    std::fflush(out_);
  }

 private:
  static void begin(JsonWriter& json, ReportKind kind, fleet::TaskId task, const std::string& name,
                    std::uint32_t attempt, const std::string& worker) {
    json.begin_object()
        .field("report", kind_name(kind))
        .field("task", task.to_string())
        .field("name", name)
        .field("attempt", attempt)
        .field("worker", worker);
  }
  void line(std::string text) {
    text += '\n';
    std::fwrite(text.data(), 1, text.size(), out_);
  }

  std::FILE* const out_;
};

}  // namespace

std::unique_ptr<RunView> make_json_view(std::FILE* out) { return std::make_unique<JsonView>(out); }

}  // namespace rota::cli
