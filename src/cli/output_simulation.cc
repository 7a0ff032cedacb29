// How `rota simulate` shows its figures: as tables and as JSON.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <utility>

#include "base/json_writer.h"
#include "cli/format.h"
#include "cli/simulate.h"
#include "cli/table.h"
#include "fleet/explain_words.h"
#include "sim/predict.h"

namespace rota::cli {

namespace {

using fleet::Figures;

std::int64_t quantile_of(const SimulatedCourse& course, std::int64_t Figures::* member, std::int64_t permille) {
  std::vector<std::int64_t> values;
  for (const Figures& run : course.runs) values.push_back(run.*member);
  return sim::quantile(std::move(values), permille);
}

std::uint64_t most_of(const SimulatedCourse& course, std::uint64_t Figures::* member) {
  std::uint64_t most = 0;
  for (const Figures& run : course.runs) most = std::max(most, run.*member);
  return most;
}

constexpr std::pair<const char*, std::int64_t Figures::*> kMeasures[] = {
    {"makespan_ns", &Figures::makespan_ns},
    {"cost_busy_microdollars", &Figures::cost_busy_microdollars},
    {"cost_up_microdollars", &Figures::cost_up_microdollars},
    {"energy_busy_millijoules", &Figures::energy_busy_millijoules},
    {"energy_up_millijoules", &Figures::energy_up_millijoules},
    {"utilisation_millionths", &Figures::utilisation_millionths},
    {"wait_mean_ns", &Figures::wait_mean_ns},
    {"wait_p95_ns", &Figures::wait_p95_ns},
};

std::string bar(std::int64_t value, std::int64_t most) {
  const std::int64_t width = most <= 0 ? 0 : std::max<std::int64_t>(value * 24 / most, 1);
  std::string text;
  for (std::int64_t i = 0; i < width; ++i) text += "█";
  return text;
}

// "-12 %" of the makespan against the first fleet under the same policy.
std::string gain(const Simulated& simulated, const SimulatedCourse& course) {
  for (const SimulatedCourse& base : simulated.courses) {
    if (base.policy != course.policy) continue;
    if (&base == &course) return "";
    const std::int64_t before = quantile_of(base, &Figures::makespan_ns, 500);
    const std::int64_t now = quantile_of(course, &Figures::makespan_ns, 500);
    if (before == 0) return "";
    const std::int64_t change = (now - before) * 1000 / before;
    char text[32];
    std::snprintf(text, sizeof text, "%+.1f %%", static_cast<double>(change) / 10);
    return text;
  }
  return "";
}

}  // namespace

std::string simulation_table(const Simulated& simulated) {
  std::string out = simulated.workflow + ": " + counted(simulated.tasks, "task") + ", " +
                    counted(static_cast<std::size_t>(simulated.runs), "run") + " of each\n";
  if (simulated.recorded_makespan_ns > 0) {
    out += "the recorded run took " + fleet::span_of(simulated.recorded_makespan_ns) + "\n";
  }
  std::set<std::string> fleets;
  std::int64_t longest = 0;
  for (const SimulatedCourse& course : simulated.courses) {
    fleets.insert(course.fleet);
    longest = std::max(longest, quantile_of(course, &Figures::makespan_ns, 500));
  }
  const bool several = fleets.size() > 1;
  Table table(Table::Align::kRight);
  std::vector<std::string> heads{"policy", "makespan p50", "p95",      "busy cost", "provisioned", "energy",
                                 "cpu",    "wait mean",    "wait p95", "failed",    "unfinished"};
  if (several) heads.insert(heads.begin() + 1, {"fleet", "gain"});
  table.row(heads);
  std::set<std::string> reasons;
  for (const SimulatedCourse& course : simulated.courses) {
    const auto p50 = [&](std::int64_t Figures::* member) { return quantile_of(course, member, 500); };
    std::vector<std::string> cells{course.policy,
                                   fleet::span_of(p50(&Figures::makespan_ns)),
                                   fleet::span_of(quantile_of(course, &Figures::makespan_ns, 950)),
                                   "$" + dollars(p50(&Figures::cost_busy_microdollars)),
                                   "$" + dollars(p50(&Figures::cost_up_microdollars)),
                                   std::to_string(p50(&Figures::energy_up_millijoules) / 1000) + " J",
                                   percent(p50(&Figures::utilisation_millionths)),
                                   fleet::span_of(p50(&Figures::wait_mean_ns)),
                                   fleet::span_of(p50(&Figures::wait_p95_ns)),
                                   std::to_string(most_of(course, &Figures::failed)),
                                   std::to_string(most_of(course, &Figures::unfinished))};
    if (several) cells.insert(cells.begin() + 1, {course.fleet, gain(simulated, course)});
    table.row(std::move(cells));
    for (const auto& [reason, ns] : course.waits_ns) reasons.insert(reason);
  }
  out += "\n" + table.text() + "\n";
  Table chart;
  for (const SimulatedCourse& course : simulated.courses) {
    const std::int64_t makespan = quantile_of(course, &Figures::makespan_ns, 500);
    chart.row({course.policy + (several ? " on " + course.fleet : ""), bar(makespan, longest)});
  }
  out += chart.text();
  if (!reasons.empty()) {
    Table waits(Table::Align::kRight);
    std::vector<std::string> names{"waits by reason"};
    for (const SimulatedCourse& course : simulated.courses)
      names.push_back(course.policy + (several ? " on " + course.fleet : ""));
    waits.row(std::move(names));
    for (const std::string& reason : reasons) {
      std::vector<std::string> cells{reason};
      for (const SimulatedCourse& course : simulated.courses) {
        std::int64_t total = 0;
        for (const auto& [each, ns] : course.waits_ns) total += ns;
        const auto found = course.waits_ns.find(reason);
        cells.push_back(found == course.waits_ns.end() || total == 0
                            ? "-"
                            : percent(static_cast<std::int64_t>(static_cast<double>(found->second) /
                                                                static_cast<double>(total) * 1e6)));
      }
      waits.row(std::move(cells));
    }
    out += "\n" + waits.text();
  }
  if (!simulated.trace.empty()) {
    out += "\nthe log of one run: rota trace " + simulated.trace + ", rota explain --help\n";
  }
  return out;
}

std::string simulation_json(const Simulated& simulated) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .field("workflow", simulated.workflow)
      .field("tasks", simulated.tasks)
      .field("runs", simulated.runs)
      .field("recorded_makespan_ns", simulated.recorded_makespan_ns);
  json.key("courses").begin_array();
  for (const SimulatedCourse& course : simulated.courses) {
    json.begin_object().field("policy", course.policy).field("fleet", course.fleet);
    for (const auto& [name, member] : kMeasures) {
      json.key(name).begin_object();
      json.field("p50", quantile_of(course, member, 500)).field("p95", quantile_of(course, member, 950)).end_object();
    }
    json.field("succeeded_most", most_of(course, &Figures::succeeded))
        .field("failed_most", most_of(course, &Figures::failed))
        .field("unfinished_most", most_of(course, &Figures::unfinished));
    json.key("waits_ns").begin_object();
    for (const auto& [reason, ns] : course.waits_ns) json.field(reason, ns);
    json.end_object().end_object();
  }
  json.end_array().end_object();
  return out;
}

}  // namespace rota::cli
