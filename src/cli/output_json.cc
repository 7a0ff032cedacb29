#include "cli/output_json.h"

#include <algorithm>
#include <utility>

#include "base/json_writer.h"
#include "cli/load.h"
#include "fleet/names.h"

namespace rota::cli {

namespace {

// One line: the object whose members `write` adds.
template <class Write>
std::string object(Write&& write) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write(json);
  json.end_object();
  return out;
}

void write_stages(JsonWriter& json, const model::WorkflowSpec& spec) {
  json.field("name", spec.name).key("stages").begin_array();
  for (const model::Stage& stage : spec.stages) {
    json.begin_object().field("name", stage.name).field("tasks", tasks_of(stage));
    if (stage.fan_out) {
      json.key("matrix").begin_object();
      for (const model::MatrixList& list : stage.fan_out->lists) json.field(list.name, list.values);
      json.end_object();
    }
    json.key("needs").begin_array();
    for (const std::uint32_t need : stage.needs) json.value(spec.stages[need].name);
    json.end_array();
    if (!stage.each.empty()) {
      json.key("each").begin_object();
      for (const model::ItemNeed& each : stage.each) {
        json.key(spec.stages[each.stage].name).begin_array();
        for (const std::string& name : each.names) json.value(name);
        json.end_array();
      }
      json.end_object();
    }
    if (stage.waits_for_end()) json.field("when", to_string(stage.when));
    if (stage.finally) json.field("finally", true);
    json.end_object();
  }
  json.end_array();
}

void write_tasks(JsonWriter& json, const RunReport& report) {
  json.key("tasks").begin_array();
  for (const TaskRow& task : report.tasks) {
    json.begin_object()
        .field("task", task.id.to_string())
        .field("name", task.name)
        .field("state", state_text(task))
        .field("attempts", task.attempts);
    if (task.started_ns > 0) {  // A task that did not run has no times and no worker.
      json.field("wait_ns", task.wait_ns).field("run_ns", task.run_ns).field("started_ns", task.started_ns);
      if (graph::is_terminal(task.state)) json.field("ended_ns", task.ended_ns);
      json.field("worker", task.worker);
    }
    if (!task.message.empty()) json.field("message", task.message);
    if (!task.note.empty()) json.field("cached", task.cached).field("cache", task.note);
    json.end_object();
  }
  json.end_array();
}

void write_error(JsonWriter& json, const Error& error) {
  json.key("error").begin_object().field("code", to_string(error.code)).field("message", error.message);
  for (const ErrorDetail& detail : error.details) json.field(detail.key, detail.value);
  json.end_object();
}

void write_workflow(JsonWriter& json, const WorkflowStatus& status, bool with_tasks) {
  const RunReport& report = status.report;
  json.begin_object()
      .field("workflow", report.workflow.to_string())
      .field("name", report.name)
      .field("outcome", outcome_text(report))
      .field("submitted_ns", status.submitted_ns)
      .field("elapsed_ns", report.elapsed_ns());
  json.key("counts").begin_object();
  for (const auto& [name, count] : counts_of(report)) json.field(name, count);
  json.end_object();
  if (with_tasks) write_tasks(json, report);
  json.end_object();
}

}  // namespace

void JsonOutput::version(std::string_view version) {
  print_line(object([&](JsonWriter& json) { json.field("version", version); }));
}

void JsonOutput::settings(const Settings& settings) { print_line(settings.to_json()); }

void JsonOutput::validation(const std::string& file, const Result<Loaded>& loaded) {
  print_line(object([&](JsonWriter& json) {
    json.field("file", file).field("valid", loaded.ok());
    if (loaded.ok()) {
      const model::WorkflowSpec& spec = loaded->spec;
      json.field("name", spec.name).field("stages", spec.stages.size()).field("tasks", count_tasks(spec));
      return;
    }
    json.field("code", to_string(loaded.error().code)).key("problems").begin_array();
    bool any = false;
    for (const ErrorDetail& detail : loaded.error().details) {
      if (detail.key != "problem") continue;
      any = true;
      json.value(detail.value);
    }
    if (!any) json.value(loaded.error().message);  // The file could not be read at all.
    json.end_array();
  }));
}

void JsonOutput::graph(const model::WorkflowSpec& spec, GraphFormat /*format*/) {
  print_line(object([&](JsonWriter& json) { write_stages(json, spec); }));
}

void JsonOutput::plan(const RunPlan& plan) {
  print_line(object([&](JsonWriter& json) {
    json.field("dry_run", true);
    write_stages(json, plan.spec);
    json.key("plan").begin_array();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const StagePlan& stage = plan.stages[s];
      json.begin_object().field("stage", plan.spec.stages[s].name).field("tasks", stage.tasks);
      json.field("kept", stage.kept);
      if (stage.open_ended) json.field("open_ended", true);
      if (stage.cached > 0) json.field("cached", stage.cached);
      if (stage.maybe > 0) json.field("maybe_cached", stage.maybe);
      if (stage.kept + stage.cached < stage.tasks) json.field("why", stage.why);
      json.end_object();
    }
    json.end_array();
    json.key("warnings").begin_array();
    for (const std::string& warning : plan.warnings) json.value(warning);
    json.end_array();
    json.key("workers").begin_array();
    for (const model::WorkerSpec& worker : plan.workers) {
      json.begin_object()
          .field("name", worker.name)
          .field("cpu_millis", worker.resources.cpu_millis)
          .field("memory_bytes", worker.resources.memory_bytes)
          .field("gpus", worker.resources.gpus.size());
      for (const model::NamedAmount& named : worker.resources.named) json.field(named.name, named.count);
      json.end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::status(const std::vector<PlaceStatus>& places, bool older) {
  print_line(object([&](JsonWriter& json) {
    json.key("runs").begin_array();
    for (const PlaceStatus& status : places) {
      json.begin_object().field("where", status.place.folder).field("name", status.place.name);
      json.field("in_use", status.writer.has_value());
      if (status.writer) json.field("writer", *status.writer);
      if (status.error) write_error(json, *status.error);
      json.key("workflows").begin_array();
      for (std::size_t i = 0; i < status.workflows.size() && (older || i == 0); ++i) {
        write_workflow(json, status.workflows[i], places.size() == 1 && i == 0);
      }
      json.end_array().end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::explanation(const fleet::Explanation& explanation) { print_line(fleet::to_json(explanation)); }

void JsonOutput::replay(const Replay& replay) {
  print_line(object([&](JsonWriter& json) {
    json.field("verified", replay.verified)
        .field("records", replay.records)
        .field("compacted", replay.compacted)
        .field("state", replay.hash);
    json.key("courses").begin_array();
    for (const Course& course : replay.courses) {
      json.begin_object().field("name", course.name).raw_field("figures", fleet::to_json(course.figures)).end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::replay_failed(const Error& error) {
  print_line(object([&](JsonWriter& json) {
    json.field("verified", false);
    write_error(json, error);
  }));
}

void JsonOutput::trace_written(const std::string& path, std::size_t slices) {
  print_line(object([&](JsonWriter& json) { json.field("path", path).field("slices", slices); }));
}

void JsonOutput::ledger_copied(const LedgerCopy& copy) {
  print_line(object([&](JsonWriter& json) {
    using Action = LedgerCopy::Action;
    json.field("action", copy.action == Action::kRestore ? "restore"
                         : copy.action == Action::kCopy  ? "copy"
                                                         : "backup")
        .field("from", copy.from)
        .field("to", copy.to)
        .field("first_index", copy.first_index)
        .field("last_index", copy.last_index);
  }));
}

void JsonOutput::log_fact(const LogOwner& owner, std::string_view key, std::string_view value) {
  print_line(object([&](JsonWriter& json) {
    json.field("task", owner.task.to_string())
        .field("name", owner.name)
        .field("attempt", owner.attempt.value())
        .field(key, value);
  }));
}

void JsonOutput::submitted(const Submission& submission) {
  print_line(object([&](JsonWriter& json) {
    json.field("workflow", submission.workflow.to_string()).field("record", submission.index);
    if (submission.repeated) json.field("repeated", true);
    if (submission.throttle) json.field("throttle", true);
    if (submission.outcome) json.field("outcome", to_string(*submission.outcome));
    if (submission.warnings.empty()) return;
    json.key("warnings").begin_array();
    for (const std::string& warning : submission.warnings) json.value(warning);
    json.end_array();
  }));
}

void JsonOutput::controlled(const std::string& action, const std::string& what, std::uint64_t index) {
  print_line(
      object([&](JsonWriter& json) { json.field("action", action).field("what", what).field("record", index); }));
}

void JsonOutput::workers(const std::vector<WorkerLine>& workers) {
  print_line(object([&](JsonWriter& json) {
    json.key("workers").begin_array();
    for (const WorkerLine& worker : workers) {
      json.begin_object()
          .field("name", worker.name)
          .field("state", worker.status)
          .field("running", worker.tasks)
          .field("queued", worker.queued)
          .field("cost_microdollars_per_hour", worker.cost_microdollars_per_hour)
          .field("zone", worker.zone)
          .field("resources", worker.resources)
          .end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::benchmarks(const std::vector<BenchFigure>& figures) {
  print_line(object([&](JsonWriter& json) {
    json.key("benchmarks").begin_array();
    for (const BenchFigure& figure : figures) {
      json.begin_object()
          .field("name", figure.name)
          .field("meaning", figure.meaning)
          .field("ns", static_cast<std::int64_t>(figure.ns + 0.5))
          .field("per_second", static_cast<std::int64_t>(figure.per_second() + 0.5))
          .end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::schedules(const std::vector<ScheduleLine>& schedules) {
  const auto texts = [](JsonWriter& json, std::string_view name, const std::vector<std::string>& list) {
    json.key(name).begin_array();
    for (const std::string& text : list) json.value(text);
    json.end_array();
  };
  print_line(object([&](JsonWriter& json) {
    json.key("schedules").begin_array();
    for (const ScheduleLine& schedule : schedules) {
      json.begin_object()
          .field("name", schedule.name)
          .field("cron", schedule.cron)
          .field("tz", schedule.zone)
          .field("missed", schedule.missed)
          .field("overlap", schedule.overlap)
          .field("user", schedule.user)
          .field("paused", schedule.paused)
          .field("fired", schedule.fired)
          .field("queued", schedule.queued);
      texts(json, "running", schedule.running);
      texts(json, "next", schedule.next);
      json.end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::tokens(const std::vector<TokenLine>& tokens) {
  print_line(object([&](JsonWriter& json) {
    json.key("tokens").begin_array();
    for (const TokenLine& token : tokens) {
      json.begin_object().field("name", token.name).field("role", token.role).field("user", token.user);
      if (!token.expires.empty()) json.field("expires", token.expires).field("over", token.over);
      json.end_object();
    }
    json.end_array();
  }));
}

void JsonOutput::token_made(const std::string& name, const std::string& secret) {
  print_line(object([&](JsonWriter& json) { json.field("name", name).field("token", secret); }));
}

void JsonOutput::token_revoked(const std::string& name) {
  print_line(object([&](JsonWriter& json) { json.field("name", name).field("revoked", true); }));
}

void JsonOutput::log_line(const LogOwner& owner, std::string_view line) { log_fact(owner, "line", line); }

void JsonOutput::log_path(const LogOwner& owner, const std::string& path) { log_fact(owner, "path", path); }

void JsonOutput::log_note(const LogOwner& owner, const std::string& text) { log_fact(owner, "note", text); }

std::unique_ptr<RunView> JsonOutput::run_view() { return make_json_view(out()); }

void JsonOutput::run_ended(const RunSummary& summary) {
  const RunReport& report = summary.report;
  print_line(object([&](JsonWriter& json) {
    json.field("event", "Summary")
        .field("workflow", report.workflow.to_string())
        .field("name", report.name)
        .field("outcome", fleet::to_string(report.outcome))
        .field("elapsed_ns", report.elapsed_ns());
    if (report.cost_microdollars >= 0) json.field("cost_microdollars", report.cost_microdollars);
    const CriticalPath path = critical_path(report);
    json.key("critical_path").begin_object().field("run_ns", path.run_ns).key("tasks").begin_array();
    for (const std::uint32_t task : path.tasks) json.value(report.tasks[task].name);
    json.end_array().end_object();
    write_tasks(json, report);
  }));
}

}  // namespace rota::cli
