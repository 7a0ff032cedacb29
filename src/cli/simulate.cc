#include "cli/simulate.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/units.h"
#include "cli/load.h"
#include "cli/log_source.h"
#include "cli/places.h"
#include "cli/policy_text.h"
#include "cli/replay.h"
#include "fleet/brain.h"
#include "fleet/text.h"
#include "sim/predict.h"
#include "sim/wf_format.h"
#include "workflow/fleet_file.h"
#include "workflow/workflow.h"

namespace rota::cli {

namespace {

constexpr std::int64_t kCopiesMost = 10'000;

Error wrong(const std::string& option, const std::string& text, const std::string& right) {
  return Error{ErrorCode::kInvalidArgument, option + " " + printable(text, 100) + ": " + right};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "5%" is 50,000 millionths; decimals are allowed.
std::optional<std::int64_t> percent_millionths(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 || value > 100) return std::nullopt;
  return static_cast<std::int64_t>(value * 10'000);
}

// The workflow, from a file of ours or from a trace in WfFormat.
Result<void> load(const SimulateOptions& options, sim::PredictOptions& predict, Simulated& result) {
  ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(options.file));
  if (sim::is_wf_format(source.text)) {
    Result<sim::Trace> trace = sim::read_wf_format(source.text);
    if (!trace.ok()) return Error(trace.error()).in(options.file);
    predict.workflow = std::move(trace->workflow);
    predict.durations = std::move(trace->durations);
    result.recorded_makespan_ns = trace->makespan_ns;
    return {};
  }
  ROTA_TRY_ASSIGN(Loaded loaded, load_workflow(options.file));
  predict.workflow = std::move(loaded.spec);
  // Results are not known, so neither are lists that are results.
  for (model::Stage& stage : predict.workflow.stages) {
    if (!stage.fan_out) continue;
    for (std::int64_t i = 0; i < options.items; ++i) {
      std::string item;
      for (const std::string& name : stage.fan_out->names()) {
        item += item.empty() ? "{" : ",";
        append_json_string(item, name);
        item += ":" + std::to_string(i);
      }
      stage.items.push_back(item + "}");
    }
    stage.fan_out.reset();
  }
  return {};
}

// How long the attempts that succeeded took, by stage.
Result<void> learn_durations(const std::string& where, sim::Durations& durations) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(where, &note));
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
  std::map<model::TaskId, std::int64_t> began;
  std::size_t count = 0;
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->next());
    if (record == nullptr) break;
    ROTA_TRY(brain.apply(*record));
    for (const fleet::Event& event : record->events) {
      fleet::each_begun(event, brain.state(),
                        [&](model::TaskId id, model::AttemptNumber) { began[id] = record->wall_ns; });
      const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event);
      const fleet::Task* task = succeeded == nullptr ? nullptr : brain.state().find(succeeded->task);
      const auto start = task == nullptr ? began.end() : began.find(succeeded->task);
      if (start == began.end()) continue;
      const fleet::Workflow& workflow = brain.state().at(succeeded->task.workflow());
      durations.samples_ns[workflow.spec.stages[task->stage].name].push_back(
          std::max<std::int64_t>(record->wall_ns - start->second, 1));
      ++count;
    }
  }
  if (count > 0) return {};
  return Error{ErrorCode::kNotFound, "--from-log " + printable(where, 200) + ": the log has no task that succeeded"};
}

Result<void> read_durations(const SimulateOptions& options, sim::PredictOptions& predict) {
  sim::Durations& durations = predict.durations;
  if (!options.from_log.empty()) ROTA_TRY(learn_durations(options.from_log, durations));
  for (const std::string& text : options.durations) {
    const std::size_t equals = text.find('=');
    const std::string stage = equals == std::string::npos ? "" : text.substr(0, equals);
    const Result<Duration> time =
        parse_duration(std::string_view(text).substr(equals == std::string::npos ? 0 : equals + 1));
    if (!time.ok() || time->count() <= 0) {
      return wrong("--duration", text, "write a time for every stage, like 90s, or for one of them, like train=2h");
    }
    if (stage.empty()) {
      durations.otherwise_ns = time->count();
      continue;
    }
    const auto& stages = predict.workflow.stages;
    if (std::none_of(stages.begin(), stages.end(), [&](const model::Stage& each) { return each.name == stage; })) {
      return wrong("--duration", text, "the workflow has no stage '" + printable(stage, 60) + "'");
    }
    durations.samples_ns[stage] = {time->count()};
  }
  if (!options.spread.empty()) {
    const std::optional<std::int64_t> spread = percent_millionths(options.spread);
    if (!spread) return wrong("--spread", options.spread, "write a percentage from 0% to 100%, like 20%");
    durations.spread_millionths = *spread;
  }
  return {};
}

Result<void> read_failures(const SimulateOptions& options, sim::PredictOptions& predict) {
  if (!options.spot.empty()) {
    const std::string_view text = options.spot;
    const std::optional<std::int64_t> rate =
        text.ends_with("/h") ? percent_millionths(text.substr(0, text.size() - 2)) : std::nullopt;
    if (!rate) return wrong("--spot", options.spot, "write a percentage per hour, like 5%/h");
    predict.spot_millionths_per_hour = *rate;
  }
  for (const std::string& text : options.failures) {
    const std::size_t at = text.rfind('@');
    const Result<Duration> time = at == std::string::npos ? Result<Duration>(ErrorCode::kParseError)
                                                          : parse_duration(std::string_view(text).substr(at + 1));
    if (!time.ok() || time->count() < 0) return wrong("--fail", text, "write a worker and a time, like w2@30m");
    const std::string worker = text.substr(0, at);
    if (std::none_of(predict.workers.begin(), predict.workers.end(),
                     [&](const model::WorkerSpec& each) { return each.name == worker; })) {
      return wrong("--fail", text, "the fleet has no worker '" + printable(worker, 60) + "'");
    }
    predict.losses.push_back({worker, time->count()});
  }
  return {};
}

// Adds "2xgpu": two more workers like `gpu`, or like `gpu-1`, the first of several.
Result<void> add_workers(const std::string& text, std::vector<model::WorkerSpec>& workers) {
  const std::size_t times = text.find('x');
  const std::optional<std::int64_t> count =
      times == std::string::npos ? std::nullopt : whole_number(std::string_view(text).substr(1, times - 1));
  if (!count || *count < 1 || *count > kCopiesMost) {
    return wrong("--fleet", text, "write how many of which worker are added, like +2xgpu");
  }
  const std::string name = text.substr(times + 1);
  const auto like = std::find_if(workers.begin(), workers.end(), [&](const model::WorkerSpec& worker) {
    return worker.name == name || worker.name == name + "-1";
  });
  if (like == workers.end()) return wrong("--fleet", text, "the fleet has no worker '" + printable(name, 60) + "'");
  const model::WorkerSpec copy = *like;
  for (std::int64_t i = 1; i <= *count; ++i) {
    workers.push_back(copy);
    workers.back().name = name + "+" + std::to_string(i);
  }
  return {};
}

struct NamedFleet {
  std::string name{};
  std::vector<model::WorkerSpec> workers{};
};

Result<std::vector<NamedFleet>> read_fleets(const SimulateOptions& options, sim::PredictOptions& predict) {
  if (options.fleets.empty() || options.fleets.front().starts_with('+')) {
    return Error{ErrorCode::kInvalidArgument,
                 "--fleet FILE is missing: a file that describes the workers (docs/fleet.md)"};
  }
  ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(options.fleets.front()));
  workflow::FleetFile file = workflow::read_fleet(source);
  if (!file.ok()) return workflow::to_error(source.path, file.problems);
  predict.policy.fleet = file.named;
  std::vector<NamedFleet> fleets{{options.fleets.front(), std::move(file.workers)}};
  for (std::size_t i = 1; i < options.fleets.size(); ++i) {
    const std::string& text = options.fleets[i];
    if (!text.starts_with('+'))
      return wrong("--fleet", text, "only the first is a file; further ones add workers, like +2xgpu");
    NamedFleet more{fleets.front().name + " " + text, fleets.front().workers};
    ROTA_TRY(add_workers(text, more.workers));
    fleets.push_back(std::move(more));
  }
  // A task that needs a handler runs on any simulated worker.
  for (NamedFleet& fleet : fleets) {
    for (model::WorkerSpec& worker : fleet.workers) {
      for (const model::TaskTemplate& task : predict.workflow.templates) {
        if (!task.spec.program) worker.handlers.push_back(task.spec.type);
      }
      std::sort(worker.handlers.begin(), worker.handlers.end());
      worker.handlers.erase(std::unique(worker.handlers.begin(), worker.handlers.end()), worker.handlers.end());
    }
  }
  return fleets;
}

struct NamedPolicy {
  std::string name{};
  fleet::Policy policy{};
};

Result<std::vector<NamedPolicy>> read_policies(const SimulateOptions& options, const fleet::Policy& base) {
  std::vector<NamedPolicy> policies;
  if (options.policies.empty()) {
    for (const fleet::DispatchMode mode :
         {fleet::DispatchMode::kAdaptive, fleet::DispatchMode::kStaticWorker, fleet::DispatchMode::kFixedPipeline,
          fleet::DispatchMode::kStaticRoundRobin}) {
      policies.push_back({std::string(to_string(mode)), base});
      policies.back().policy.mode = mode;
    }
    return policies;
  }
  ROTA_TRY_ASSIGN(const std::vector<std::string> changes, check_policies(options.policies));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    policies.push_back({options.policies[i], base});
    ROTA_TRY(fleet::parse_fields(changes[i], policies.back().policy));
  }
  return policies;
}

}  // namespace

Result<Simulated> simulate(const SimulateOptions& options) {
  Simulated result;
  sim::PredictOptions predict;
  ROTA_TRY(load(options, predict, result));
  ROTA_TRY(read_durations(options, predict));
  ROTA_TRY_ASSIGN(const std::vector<NamedFleet> fleets, read_fleets(options, predict));
  predict.workers = fleets.front().workers;
  ROTA_TRY(read_failures(options, predict));
  ROTA_TRY_ASSIGN(const std::vector<NamedPolicy> policies, read_policies(options, predict.policy));
  predict.runs = options.runs;
  predict.seed = static_cast<std::uint64_t>(options.seed);
  result.workflow = predict.workflow.name;
  result.tasks = count_tasks(predict.workflow);
  result.runs = options.runs;
  result.trace = options.trace;
  predict.keep_log = !options.trace.empty();
  for (const NamedFleet& fleet : fleets) {
    for (const NamedPolicy& policy : policies) {
      predict.workers = fleet.workers;
      predict.policy = policy.policy;
      ROTA_TRY_ASSIGN(sim::Prediction prediction, sim::predict(predict));
      if (predict.keep_log) {
        std::ofstream file(options.trace, std::ios::binary | std::ios::trunc);
        file << prediction.log;
        file.close();
        if (!file) return Error{ErrorCode::kIoError, "'" + printable(options.trace, 300) + "' could not be written"};
        predict.keep_log = false;
      }
      result.courses.push_back({fleet.name, policy.name, std::move(prediction.runs), std::move(prediction.waits_ns)});
    }
  }
  return result;
}

}  // namespace rota::cli
