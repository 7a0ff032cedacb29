#include "cli/output_table.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "cli/format.h"
#include "cli/output_json.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "fleet/explain_words.h"

namespace rota::cli {

namespace {

// "train x3": with the number of tasks, if the stage has items. "notify (on failure)", "clean (finally)".
std::string label_of(const model::Stage& stage) {
  std::string text = stage.items.empty() ? stage.name : stage.name + " x" + std::to_string(stage.items.size());
  if (stage.fan_out && stage.items.empty()) {
    text += " x";
    for (const model::MatrixList& list : stage.fan_out->lists) {
      text += (text.ends_with('x') ? " " : ", ") + list.name + " in " + printable(list.values, 60);
    }
  }
  const std::string on = stage.when == model::When::kAlways ? "always" : "on " + std::string(to_string(stage.when));
  if (stage.finally) return text + " (finally" + (stage.when == model::When::kAlways ? ")" : ", " + on + ")");
  return stage.when == model::When::kSuccess ? text : text + " (" + on + ")";
}

// "each sample", if the stage needs the other one by item; otherwise empty.
std::string each_of(const model::Stage& stage, std::uint32_t need) {
  for (const model::ItemNeed& each : stage.each) {
    if (each.stage != need) continue;
    std::string text = "each";
    for (std::size_t i = 0; i < each.names.size(); ++i) text += (i == 0 ? " " : ", ") + each.names[i];
    return text;
  }
  return {};
}

std::string text_graph(const model::WorkflowSpec& spec) {
  std::string out;
  const std::vector<std::vector<std::uint32_t>> needs = model::drawn_needs(spec);
  for (std::size_t s = 0; s < spec.stages.size(); ++s) {
    out += label_of(spec.stages[s]);
    for (std::size_t i = 0; i < needs[s].size(); ++i) {
      out += (i == 0 ? " <- " : ", ") + spec.stages[needs[s][i]].name;
      if (const std::string each = each_of(spec.stages[s], needs[s][i]); !each.empty()) out += " (" + each + ")";
    }
    out += "\n";
  }
  return out;
}

// The values of a matrix may contain quotes.
std::string quoted_text(const std::string& text, bool mermaid) {
  std::string out;
  for (const char c : text) {
    if (c == '"') {
      out += mermaid ? "#quot;" : "\\\"";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// Mermaid and dot differ in their brackets and arrows only.
std::string drawn_graph(const model::WorkflowSpec& spec, bool mermaid) {
  std::string out = mermaid ? "flowchart TD\n" : "digraph workflow {\n";
  const std::vector<std::vector<std::uint32_t>> needs = model::drawn_needs(spec);
  for (std::size_t i = 0; i < spec.stages.size(); ++i) {
    const std::string id = "s" + std::to_string(i);
    const std::string label = "\"" + quoted_text(label_of(spec.stages[i]), mermaid) + "\"";
    out += "  " + id + (mermaid ? "[" + label + "]\n" : " [label=" + label + "];\n");
    for (const std::uint32_t need : needs[i]) {
      const std::string each = each_of(spec.stages[i], need);
      const std::string on = each.empty() ? "" : mermaid ? "|" + each + "|" : " [label=\"" + each + "\"]";
      out += "  s" + std::to_string(need) + (mermaid ? " -->" + on + " " + id + "\n" : " -> " + id + on + ";\n");
    }
  }
  return out + (mermaid ? "" : "}\n");
}

// "  train x3: cpu 1, memory 4 GiB, gpu 1, after prepare"
std::string plan_line(const model::WorkflowSpec& spec, const model::Stage& stage) {
  const model::TaskTemplate& use = spec.templates[static_cast<std::size_t>(stage.use)];
  std::string text = "  " + label_of(stage) + ": " + model::to_text(use.needs);
  for (std::size_t i = 0; i < stage.needs.size(); ++i) {
    text += (i == 0 ? ", after " : ", ") + spec.stages[stage.needs[i]].name;
  }
  return text;
}

std::string figures_table(const Replay& replay) {
  using Cell = std::string (*)(const fleet::Figures&);
  using fleet::Figures;
  const std::vector<std::pair<std::string, Cell>> rows = {
      {"makespan", [](const Figures& f) { return fleet::span_of(f.makespan_ns); }},
      {"busy cost", [](const Figures& f) { return "$" + dollars(f.cost_busy_microdollars); }},
      {"provisioned cost", [](const Figures& f) { return "$" + dollars(f.cost_up_microdollars); }},
      {"busy energy", [](const Figures& f) { return std::to_string(f.energy_busy_millijoules / 1000) + " J"; }},
      {"provisioned energy", [](const Figures& f) { return std::to_string(f.energy_up_millijoules / 1000) + " J"; }},
      {"cpu utilisation", [](const Figures& f) { return percent(f.utilisation_millionths); }},
      {"wait mean", [](const Figures& f) { return fleet::span_of(f.wait_mean_ns); }},
      {"wait p95", [](const Figures& f) { return fleet::span_of(f.wait_p95_ns); }},
      {"succeeded", [](const Figures& f) { return std::to_string(f.succeeded); }},
      {"failed", [](const Figures& f) { return std::to_string(f.failed); }},
      {"cancelled", [](const Figures& f) { return std::to_string(f.cancelled); }},
      {"skipped", [](const Figures& f) { return std::to_string(f.skipped); }},
      {"unfinished", [](const Figures& f) { return std::to_string(f.unfinished); }},
      {"refused", [](const Figures& f) { return std::to_string(f.refused); }},
      {"decisions", [](const Figures& f) { return std::to_string(f.records); }},
  };
  // A policy is too long for a heading: policies are numbered, and listed below the table.
  std::vector<std::string> heads{""};
  std::string policies;
  for (std::size_t i = 0; i < replay.courses.size(); ++i) {
    const Course& course = replay.courses[i];
    const std::string number = "policy " + std::to_string(i - 1);
    heads.push_back(course.policy.empty() ? course.name : number);
    if (!course.policy.empty()) policies += number + ": " + course.name + "\n";
  }
  Table table(Table::Align::kRight);
  table.row(std::move(heads));
  for (const auto& [name, cell] : rows) {
    std::vector<std::string> cells{name};
    for (const Course& course : replay.courses) cells.push_back(cell(course.figures));
    table.row(std::move(cells));
  }
  return table.text() + (policies.empty() ? "" : "\n" + policies);
}

}  // namespace

void TableOutput::version(std::string_view version) { print_line("rota " + std::string(version)); }

void TableOutput::settings(const Settings& settings) { print(settings.to_text()); }

void TableOutput::validation(const std::string& file, const Result<Loaded>& loaded) {
  if (!loaded.ok()) return print_error(loaded.error());
  const model::WorkflowSpec& spec = loaded->spec;
  print_line(file + ": '" + spec.name + "' is valid: " + counted(spec.stages.size(), "stage") + ", " +
             counted(count_tasks(spec), "task"));
}

void TableOutput::graph(const model::WorkflowSpec& spec, GraphFormat format) {
  switch (format) {
    case GraphFormat::kText:
      return print(text_graph(spec));
    case GraphFormat::kMermaid:
    case GraphFormat::kDot:
      return print(drawn_graph(spec, format == GraphFormat::kMermaid));
    case GraphFormat::kJson:
      return JsonOutput(out()).graph(spec, format);
  }
}

namespace {

// What a stage whose tasks are known does: "runs (a new run)"; "2 tasks of 3 run (the file in.csv changed), 1 is
// cached".
std::string plan_text(const StagePlan& stage) {
  const std::size_t open = stage.tasks - stage.kept - stage.cached;
  if (open == 0 && stage.cached == 0) return "done, its result is kept";
  const bool single = stage.cached == 1;
  if (open == 0 && stage.kept == 0) return "cached (" + stage.note + ")";
  if (open == 0) {
    return "done: " + counted(stage.kept, "result") + (stage.kept == 1 ? " is" : " are") + " kept, " +
           std::to_string(stage.cached) + (single ? " is" : " are") + " cached";
  }
  std::string text =
      open == stage.tasks ? "runs (" : counted(open, "task") + " of " + std::to_string(stage.tasks) + " run (";
  text += stage.why + ")";
  if (stage.cached > 0) text += ", " + std::to_string(stage.cached) + (single ? " is" : " are") + " cached";
  if (stage.maybe > 0) {
    text += stage.maybe == stage.tasks ? (stage.tasks == 1 ? ", unless it is cached" : ", unless they are cached")
                                       : ", unless " + std::to_string(stage.maybe) + " of them are cached";
    text += "; that depends on what runs before";
  }
  return text;
}

}  // namespace

void TableOutput::plan(const RunPlan& plan) {
  const model::WorkflowSpec& spec = plan.spec;
  print_line(spec.name + ": " + counted(spec.stages.size(), "stage") + ", " + counted(count_tasks(spec), "task"));
  for (std::size_t s = 0; s < spec.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    if (stage.open_ended) {
      print_line(plan_line(spec, spec.stages[s]) + ": runs (" + stage.why +
                 "); its tasks are known when the results are" +
                 (stage.kept > 0 ? "; " + counted(stage.kept, "result") + " of an earlier run can be kept" : "") +
                 (stage.maybe > 0 ? "; those that are cached are not run" : ""));
      continue;
    }
    print_line(plan_line(spec, spec.stages[s]) + ": " + plan_text(stage));
  }
  for (const model::WorkerSpec& worker : plan.workers) {
    print_line("worker " + worker.name + ": " + model::to_text(worker.resources));
  }
  for (const std::string& warning : plan.warnings) note("warning: no worker can run " + warning);
  print_line("nothing was run (--dry-run)");
}

void TableOutput::explanation(const fleet::Explanation& explanation) {
  print_line(explanation.sentence);
  for (const fleet::Fact& fact : explanation.facts) print_line("  " + fact.key + ": " + printable(fact.value, 2000));
}

void TableOutput::replay(const Replay& replay) {
  print_line((replay.verified
                  ? "Verified: " + std::to_string(replay.records) + " records, each decided again with the same result"
                  : "Applied " + std::to_string(replay.records) + " records without verifying them") +
             "; the hash of the final state is " + replay.hash + ".");
  if (replay.compacted == 0) return print("\n" + figures_table(replay));
  print_line("It started at a snapshot: the " + std::to_string(replay.compacted) +
             " records before it were compacted, so there are no figures.");
}

void TableOutput::trace_written(const std::string& path, std::size_t slices) {
  print_line(path + ": " + counted(slices, "slice") + ". Open it at https://ui.perfetto.dev");
}

void TableOutput::ledger_copied(const LedgerCopy& copy) {
  using Action = LedgerCopy::Action;
  const char* done = copy.action == Action::kRestore ? "restored "
                     : copy.action == Action::kCopy  ? "copied "
                                                     : "backed up ";
  std::string line = done + copy.from + " to " + copy.to + ": " + counted(copy.last_index, "record");
  if (copy.first_index > 1) line += " (those before " + std::to_string(copy.first_index) + " as a snapshot)";
  print_line(line);
  if (copy.action != Action::kBackup) {
    print_line("Tokens and certificates (`tokens`, `tls/`) are not part of the ledger.");
  }
}

void TableOutput::submitted(const Submission& submission) {
  const std::string id = submission.workflow.to_string();
  if (submission.outcome) {
    print_line(id + ": " + std::string(to_string(*submission.outcome)));
  } else {
    print_line(submission.repeated ? id + ": submitted before with this key" : id + ": accepted");
  }
  for (const std::string& warning : submission.warnings) note(id + ": " + warning);
  if (submission.throttle) note("the host is more than half full; submit more slowly");
}

void TableOutput::controlled(const std::string& action, const std::string& what, std::uint64_t /*index*/) {
  print_line(what + ": " + action + " accepted");
}

void TableOutput::workers(const std::vector<WorkerLine>& workers) {
  Table table;
  table.row({"worker", "state", "running", "queued", "$/h", "zone", "resources"});
  for (const WorkerLine& worker : workers) {
    char cost[32];
    std::snprintf(cost, sizeof cost, "%.2f", static_cast<double>(worker.cost_microdollars_per_hour) / 1e6);
    table.row({printable(worker.name, 60), worker.status, std::to_string(worker.tasks), std::to_string(worker.queued),
               cost, worker.zone.empty() ? "-" : printable(worker.zone, 30), worker.resources});
  }
  print(table.text());
}

void TableOutput::schedules(const std::vector<ScheduleLine>& schedules) {
  Table table;
  table.row({"schedule", "when", "zone", "overlap", "missed", "runs", "next"});
  for (const ScheduleLine& schedule : schedules) {
    std::string runs = std::to_string(schedule.fired);
    if (!schedule.running.empty()) runs += ", " + std::to_string(schedule.running.size()) + " running";
    if (schedule.queued > 0) runs += ", " + std::to_string(schedule.queued) + " queued";
    const std::string next = schedule.paused ? "paused" : schedule.next.empty() ? "-" : schedule.next.front();
    table.row({printable(schedule.name, 60), printable(schedule.cron, 60), printable(schedule.zone, 60),
               schedule.overlap, schedule.missed, runs, next});
  }
  print(table.text());
}

namespace {

// "8.2 ns", "0.43 us", "812 us", "1.2 ms": three digits, in the unit that fits.
std::string unit_time(double ns) {
  const char* unit = "ns";
  for (const char* larger : {"us", "ms", "s"}) {
    if (ns < 1000) break;
    ns /= 1000;
    unit = larger;
  }
  char text[32];
  std::snprintf(text, sizeof text, ns < 10 ? "%.2f %s" : ns < 100 ? "%.1f %s" : "%.0f %s", ns, unit);
  return text;
}

}  // namespace

void TableOutput::benchmarks(const std::vector<BenchFigure>& figures) {
  Table table;
  table.row({"row", "time", "per second", "of"});
  for (const BenchFigure& figure : figures) {
    char rate[32];
    std::snprintf(rate, sizeof rate, "%.0f", figure.per_second());
    table.row({figure.name, unit_time(figure.ns), rate, figure.meaning});
  }
  print(table.text());
}

void TableOutput::tokens(const std::vector<TokenLine>& tokens) {
  Table table;
  table.row({"token", "role", "user", "expires"});
  for (const TokenLine& token : tokens) {
    table.row({token.name, token.role, token.user,
               token.expires.empty() ? "never" : token.expires + (token.over ? ", over" : "")});
  }
  print(table.text());
}

void TableOutput::token_made(const std::string& name, const std::string& secret) {
  (void)name;
  print_line(secret);
}

void TableOutput::token_revoked(const std::string& name) { print_line("the token '" + name + "' is revoked"); }

void TableOutput::log_line(const LogOwner& owner, std::string_view line) {
  print_line(owner.name + " | " + std::string(line));
}

void TableOutput::log_path(const LogOwner& /*owner*/, const std::string& path) { print_line(path); }

void TableOutput::log_note(const LogOwner& /*owner*/, const std::string& text) { note(text); }

std::unique_ptr<RunView> TableOutput::run_view() {
  return terminal_of(out()).escapes ? make_live_view(out(), verbose()) : make_plain_view(out());
}

void QuietOutput::validation(const std::string& /*file*/, const Result<Loaded>& loaded) {
  if (!loaded.ok()) print_error(loaded.error());
}

}  // namespace rota::cli
