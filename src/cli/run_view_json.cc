// The view for other software: one JSON object per line.
#include <string_view>
#include <variant>

#include "base/json_writer.h"
#include "cli/run_view.h"
#include "fleet/text.h"

namespace rota::cli {

namespace {

std::string_view kind_of(const model::Report& report) {
  struct Name {
    std::string_view operator()(const model::Started&) const { return "started"; }
    std::string_view operator()(const model::Progress&) const { return "progress"; }
    std::string_view operator()(const model::Checkpoint&) const { return "checkpoint"; }
    std::string_view operator()(const model::LogLine&) const { return "log"; }
    std::string_view operator()(const model::Cached&) const { return "cache"; }
    std::string_view operator()(const model::Output&) const { return "output"; }
    std::string_view operator()(const model::Ended& ended) const { return model::to_string(ended.outcome.end); }
  };
  return std::visit(Name{}, report.body);
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
  void report(const std::string& worker, const model::Report& report, const RunFacts& facts) override {
    if (std::holds_alternative<model::Output>(report.body)) return;
    std::string text;
    JsonWriter json(text);
    begin(json, kind_of(report), report.id.task, facts.name(report.id.task), report.id.attempt, worker);
    if (const auto* started = std::get_if<model::Started>(&report.body)) {
      json.field("started_ns", started->started_ns);
    } else if (const auto* progress = std::get_if<model::Progress>(&report.body)) {
      json.field("permille", progress->permille).field("text", progress->text);
    } else if (const auto* log = std::get_if<model::LogLine>(&report.body)) {
      json.field("text", log->text);
    } else if (const auto* cached = std::get_if<model::Cached>(&report.body)) {
      json.field("text", cached->item);
    } else if (const auto* ended = std::get_if<model::Ended>(&report.body)) {
      const model::AttemptOutcome& outcome = ended->outcome;
      json.field("started_ns", outcome.started_ns).field("ended_ns", outcome.ended_ns);
      if (!outcome.message.empty()) json.field("text", outcome.message);
      if (!outcome.cache_note.empty()) json.field("cached", outcome.reused).field("cache", outcome.cache_note);
    }
    json.end_object();
    line(text);
    std::fflush(out_);
  }
  void show(const RunNews& news, const RunFacts& /*facts*/, std::int64_t /*now_ns*/) override {
    if (news.kind != RunNews::Kind::kOutput && news.kind != RunNews::Kind::kDropped) return;
    std::string text;
    JsonWriter json(text);
    begin(json, "output", news.task, news.name, news.attempt, news.worker);
    json.field("stream", news.from_stderr ? "stderr" : "stdout");
    if (news.bytes > 0) json.field("dropped_bytes", news.bytes);
    json.field("text", news.text).end_object();
    line(text);
    std::fflush(out_);
  }

 private:
  static void begin(JsonWriter& json, std::string_view kind, model::TaskId task, const std::string& name,
                    model::AttemptNumber attempt, const std::string& worker) {
    json.begin_object()
        .field("report", kind)
        .field("task", task.to_string())
        .field("name", name)
        .field("attempt", attempt.value())
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
