// rota_simulator: runs seeds of the simulator (`./dev sim`). docs/simulator.md describes it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "fleet/text.h"
#include "sim/checkers.h"
#include "sim/hooks.h"
#include "sim/shrink.h"
#include "sim/sweep.h"
#include "sim/world.h"

namespace rota::sim {
namespace {

struct Arguments {
  SweepOptions sweep{};
  bool help = false;
  bool mutants = false;
  bool marks = false;
  bool shrinks = true;
  bool trace = false;  // Print the log of a scenario.
  std::string scenario{};
  std::string out = ".";
};

constexpr std::string_view kHelp =
    "usage: rota_simulator [--seeds N] [--from SEED] [--jobs N] [--failures N] [--workers N] [--tasks N] [--mutants] "
    "[--mutant NAME]\n"
    "                      [--full] [--redis] [--etcd] [--scenario FILE] [--trace] [--sometimes] [--no-shrink] [--out "
    "FOLDER]\n";

Result<Arguments> parse(const std::vector<std::string>& words) {
  Arguments arguments;
  const auto number = [](const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto next = [&]() -> std::string { return i + 1 < words.size() ? words[++i] : std::string(); };
    if (word == "--seeds") {
      arguments.sweep.seeds = number(next());
    } else if (word == "--from") {
      arguments.sweep.from = number(next());
    } else if (word == "--jobs") {
      arguments.sweep.processes = static_cast<int>(number(next()));
    } else if (word == "--failures") {
      arguments.sweep.failures_most = number(next());
    } else if (word == "--workers") {
      arguments.sweep.size.workers_most = static_cast<std::int64_t>(number(next()));
    } else if (word == "--tasks") {
      arguments.sweep.size.tasks_most = static_cast<std::int64_t>(number(next()));
    } else if (word == "--mutant") {
      arguments.sweep.mutant = next();
    } else if (word == "--scenario") {
      arguments.scenario = next();
    } else if (word == "--out") {
      arguments.out = next();
    } else if (word == "--full") {
      arguments.sweep.size.full = true;
    } else if (word == "--redis") {
      arguments.sweep.size.redis = true;
    } else if (word == "--etcd") {
      arguments.sweep.size.etcd = true;
    } else if (word == "--mutants") {
      arguments.mutants = true;
    } else if (word == "--trace") {
      arguments.trace = true;
    } else if (word == "--sometimes") {
      arguments.marks = true;
    } else if (word == "--no-shrink") {
      arguments.shrinks = false;
    } else if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else {
      return Error{ErrorCode::kInvalidArgument, "unknown argument '" + word + "'"};
    }
  }
  return arguments;
}

std::string command_of(const Arguments& arguments, std::uint64_t seed) {
  std::string command = "./dev sim --from " + std::to_string(seed) + " --seeds 1";
  const ScenarioSize normal;
  const ScenarioSize& size = arguments.sweep.size;
  if (size.workers_most != normal.workers_most) command += " --workers " + std::to_string(size.workers_most);
  if (size.tasks_most != normal.tasks_most) command += " --tasks " + std::to_string(size.tasks_most);
  if (size.full) command += " --full";
  if (size.redis) command += " --redis";
  if (size.etcd) command += " --etcd";
  if (!arguments.sweep.mutant.empty()) command += " --mutant \"" + arguments.sweep.mutant + "\"";
  return command;
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// Runs the scenario in this process and says everything about it.
int show(const Scenario& scenario, const Arguments& arguments) {
  remove_guard(arguments.sweep.mutant);
  const Witness witness = run_scenario(scenario);
  if (arguments.trace) {
    for (const StoredRecord& stored : witness.log) {
      std::cout << stored.durable_at.count() / 1'000'000 << " ms, host " << stored.host_life << ", record "
                << stored.record.index << ": " << fleet::to_text(stored.record.command) << "\n";
      for (const fleet::Event& event : stored.record.events) std::cout << "    " << fleet::to_text(event) << "\n";
    }
    for (const Delivery& delivery : witness.deliveries) {
      std::cout << delivery.at.count() / 1'000'000 << " ms, w" << delivery.where.worker << " life "
                << delivery.where.life << " receives ";
      std::visit(
          [](const auto& message) {
            std::cout << message.kName << " term " << message.term.value();
            if constexpr (requires { message.id.task; }) {
              std::cout << " " << message.id.task.to_string() << "/" << message.id.attempt.value();
            }
            if constexpr (requires { message.action; }) std::cout << " " << to_string(message.action);
            std::cout << "\n";
          },
          delivery.message);
    }
    for (const Execution& execution : witness.executions) {
      std::cout << execution.started.count() / 1'000'000 << " ms to " << execution.ended.count() / 1'000'000 << " ms, w"
                << execution.where.worker << " life " << execution.where.life << ": " << execution.id.task.to_string()
                << "/" << execution.id.attempt.value() << " end " << static_cast<int>(execution.end) << "\n";
    }
  }
  const std::vector<Violation> violations = check(witness);
  for (const Violation& violation : violations) std::cout << violation.checker << ": " << violation.what << "\n";
  std::cout << witness.log.size() << " records, " << witness.executions.size() << " executions, " << witness.host_lives
            << " lives of the host, " << witness.ended.count() / 1'000'000'000 << " s of virtual time; "
            << fingerprint(witness) << "\n";
  const std::string path = arguments.out + "/sim.log";
  write_file(path, log_file(witness));
  std::cout << "its log: rota replay " << path << "\n";
  return violations.empty() ? 0 : 1;
}

void report(const SeedFailure& failure, const Arguments& arguments) {
  std::cout << "seed " << failure.seed << " fails: " << failure.violation.checker << ": " << failure.violation.what
            << "\n  again: " << command_of(arguments, failure.seed) << "\n";
  if (!arguments.shrinks) return;
  const Scenario scenario = draw_scenario(failure.seed, arguments.sweep.size);
  const Shrunk small = shrink(scenario, [&](const Scenario& candidate) {
    return judge_apart(candidate, arguments.sweep.mutant, std::chrono::seconds(20)).checker ==
           failure.violation.checker;
  });
  const std::string path = arguments.out + "/sim-" + std::to_string(failure.seed) + ".scenario";
  const std::string text = to_text(small.scenario);
  write_file(path, text);
  std::cout << "  shrunk in " << small.replays << " replays: ./dev sim --scenario " << path
            << (arguments.sweep.mutant.empty() ? "" : " --mutant " + arguments.sweep.mutant) << "\n"
            << text;
}

int run_seeds(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const SweepResult result = sweep(arguments.sweep);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (const SeedFailure& failure : result.failures) report(failure, arguments);
  if (arguments.marks) {
    for (const auto& [name, count] : result.marks) std::cout << count << "\t" << name << "\n";
  }
  std::printf(
      "%llu seeds, %llu with a failure; %llu tasks, %llu messages, %llu records; %.1f seeds/s, %.0f times real time\n",
      static_cast<unsigned long long>(result.seeds), static_cast<unsigned long long>(result.failures.size()),
      static_cast<unsigned long long>(result.tasks), static_cast<unsigned long long>(result.messages),
      static_cast<unsigned long long>(result.records), static_cast<double>(result.seeds) / took.count(),
      std::chrono::duration<double>(result.simulated).count() / took.count());
  return result.failures.empty() ? 0 : 1;
}

// Removes each guard in turn, from three starts, and writes the table of mutants.
int run_mutants(const Arguments& arguments) {
  constexpr std::uint64_t kSeedsMost = 1000;
  std::string table;
  int survivors = 0;
  for (const auto& [name, file] : find_hooks(".", "ROTA_GUARD")) {
    std::vector<std::uint64_t> took;
    std::set<std::string> checkers;
    for (const std::uint64_t from : {1U, 100'001U, 200'001U}) {
      SweepOptions options = arguments.sweep;
      options.from = from;
      options.seeds = kSeedsMost;
      options.mutant = name;
      options.twice_every = 0;
      options.seed_within = std::chrono::seconds(10);
      const SweepResult result = sweep(options);
      took.push_back(result.failures.empty() ? kSeedsMost + 1 : result.failures.front().seed - from + 1);
      if (!result.failures.empty()) checkers.insert(result.failures.front().violation.checker);
      if (result.failures.empty()) break;
    }
    std::sort(took.begin(), took.end());
    const std::uint64_t median = took.size() < 3 ? kSeedsMost + 1 : took[1];
    std::string names;
    for (const std::string& checker : checkers) names += (names.empty() ? "" : ", ") + checker;
    if (median > kSeedsMost) ++survivors;
    const std::string row = name + "\t" + (median > kSeedsMost ? "survives" : names) + "\t" +
                            std::to_string(median > kSeedsMost ? 0 : median) + "\n";
    table += row;
    std::cout << row << std::flush;
  }
  write_file(arguments.out + "/mutants.txt", table);
  std::cout << survivors << " mutants survive " << kSeedsMost << " seeds\n";
  return survivors == 0 ? 0 : 1;
}

int run(const std::vector<std::string>& words) {
  const Result<Arguments> arguments = parse(words);
  if (!arguments.ok() || arguments->help) {
    std::cerr << (arguments.ok() ? "" : arguments.error().message + "\n") << kHelp;
    return arguments.ok() ? 0 : 2;
  }
  if ((arguments->mutants || !arguments->sweep.mutant.empty()) && !has_mutants()) {
    std::cerr << "this build has no mutants; use one without sanitizers\n";
    return 2;
  }
  if (arguments->mutants) return run_mutants(*arguments);
  if (!arguments->scenario.empty()) {
    std::ifstream file(arguments->scenario);
    std::stringstream text;
    text << file.rdbuf();
    const Result<Scenario> scenario = parse_scenario(text.str());
    if (!file || !scenario.ok()) {
      std::cerr << arguments->scenario << ": " << (file ? scenario.error().message : "cannot be read") << "\n";
      return 2;
    }
    return show(*scenario, *arguments);
  }
  if (arguments->trace) return show(draw_scenario(arguments->sweep.from, arguments->sweep.size), *arguments);
  return run_seeds(*arguments);
}

}  // namespace
}  // namespace rota::sim

int main(int argc, char** argv) {
  const rota::LogCapture quiet(rota::LogLevel::kOff);
  return rota::sim::run({argv + 1, argv + argc});
}
