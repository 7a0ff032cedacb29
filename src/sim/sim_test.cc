// The simulator: scenarios as text, runs from seeds, mutants, shrinking. More seeds: ROTA_SIM_SEEDS=10000.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/source_dir.h"
#include "fleet/record.h"
#include "sim/checkers.h"
#include "sim/hooks.h"
#include "sim/shrink.h"
#include "sim/sweep.h"
#include "sim/world.h"

namespace rota::sim {
namespace {

// A seed that takes longer counts as one that hangs. In real time: long enough for a sanitizer on a busy machine.
constexpr std::chrono::seconds kSeedWithin{600};

std::uint64_t seeds_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string describe(const SweepResult& result) {
  std::string text;
  for (const SeedFailure& failure : result.failures) {
    text += "seed " + std::to_string(failure.seed) + ": " + failure.violation.checker + ": " + failure.violation.what +
            "\n  ./dev sim --from " + std::to_string(failure.seed) + " --seeds 1\n";
  }
  return text;
}

// S-1, S-2: a number of seeds; every rule holds, and one run in a hundred is repeated to the byte.
TEST(Simulator, SeedsHold) {
  SweepOptions options;
  options.seeds = seeds_of("ROTA_SIM_SEEDS", has_mutants() ? 2000 : 20);  // A sanitizer's build is slow.
  options.processes = 2;
  options.failures_most = 3;
  options.twice_every = 100;
  options.seed_within = kSeedWithin;
  const SweepResult result = sweep(options);
  EXPECT_EQ(describe(result), "");
  EXPECT_GE(result.seeds, options.seeds);
  if (!has_mutants() || options.seeds < 10'000) return;
  for (const auto& [name, file] : find_hooks(kSourceDir, "ROTA_SOMETIMES")) {
    EXPECT_GT(result.marks.count(name), 0U) << "never reached: " << name << " (" << file << ")";
  }
}

// S-1, layer (b): the real clients of Redis and etcd, with faults in what lies behind them. The stand-ins pass the
// conformance suites of the real servers: FakeRedis/BusConformance in bus_tests, Fake/KvConformance in ledger_tests.
TEST(Simulator, SeedsOverRedisAndOnEtcdHold) {
  for (const bool redis : {true, false}) {
    SweepOptions options;
    options.seeds = seeds_of("ROTA_SIM_SEEDS", has_mutants() ? 2000 : 40) / 20;
    options.processes = 2;
    options.twice_every = 10;
    options.size.redis = redis;
    options.size.etcd = !redis;
    options.seed_within = kSeedWithin;
    const SweepResult result = sweep(options);
    EXPECT_EQ(describe(result), "") << (redis ? "--redis" : "--etcd");
    EXPECT_GE(result.seeds, options.seeds);
  }
}

// S-1: the same scenario gives the same log and the same order of events; another seed gives another.
TEST(Simulator, ASeedReproducesItsRun) {
  const LogCapture quiet(LogLevel::kOff);
  const Scenario scenario = draw_scenario(7);
  const std::string first = fingerprint(run_scenario(scenario));
  EXPECT_EQ(first, fingerprint(run_scenario(scenario)));
  EXPECT_NE(first, fingerprint(run_scenario(draw_scenario(8))));
}

// S-2: a scenario is text that a person can read and change, and reads back as the same scenario.
TEST(Scenario, IsText) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Scenario scenario = draw_scenario(seed);
    const std::string text = to_text(scenario);
    const Result<Scenario> again = parse_scenario(text);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    ASSERT_EQ(to_text(*again), text);
  }
  EXPECT_EQ(parse_scenario("").code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(parse_scenario("worker name=a\nfault kind=hostcrash").error().message.find("line 2"), std::string::npos);
  EXPECT_NE(parse_scenario("weather rain").error().message.find("a line begins with"), std::string::npos);
}

// S-2: the log of a run is a file that LogReader, and so every subcommand, accepts.
TEST(Simulator, WritesALog) {
  const LogCapture quiet(LogLevel::kOff);
  const Witness witness = run_scenario(draw_scenario(3));
  const std::string file = log_file(witness);
  fleet::LogReader reader(file);
  std::size_t records = 0;
  for (;;) {
    const Result<const fleet::Record*> record = reader.next();
    ASSERT_TRUE(record.ok()) << record.error().to_string();
    if (*record == nullptr) break;
    ++records;
  }
  EXPECT_EQ(records, witness.log.size());
}

// S-2: every scenario that once found a bug.
TEST(Simulator, CommittedScenariosHold) {
  const std::filesystem::path folder = std::filesystem::path(kSourceDir) / "src/sim/scenarios";
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const Result<Scenario> scenario = parse_scenario(file_text(entry.path()));
    ASSERT_TRUE(scenario.ok()) << scenario.error().to_string();
    const Violation violation = judge_apart(*scenario, "", kSeedWithin);
    EXPECT_EQ(violation.checker, "") << violation.what;
  }
}

// Scenarios of bugs that are known and not fixed yet. Move the file one folder up with the fix.
TEST(Simulator, OpenScenariosStillFail) {
  const std::filesystem::path folder = std::filesystem::path(kSourceDir) / "src/sim/scenarios/open";
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    const Result<Scenario> scenario = parse_scenario(file_text(entry.path()));
    ASSERT_TRUE(scenario.ok()) << scenario.error().to_string();
    EXPECT_NE(judge_apart(*scenario, "", kSeedWithin).checker, "") << "it is fixed: move it to src/sim/scenarios";
  }
}

// The rows of mutants.txt: name, checkers that caught it, median of the seeds that it took; 0: it survives. Tabs in
// between.
struct MutantRow {
  std::string name{};
  std::string checkers{};
  std::uint64_t seeds = 0;
};
std::vector<MutantRow> mutant_table() {
  std::vector<MutantRow> rows;
  std::istringstream lines(file_text(std::filesystem::path(kSourceDir) / "src/sim/mutants.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream parts(line);
    MutantRow row;
    std::string seeds;
    std::getline(parts, row.name, '\t');
    std::getline(parts, row.checkers, '\t');
    std::getline(parts, seeds, '\t');
    row.seeds = std::strtoull(seeds.c_str(), nullptr, 10);
    rows.push_back(row);
  }
  return rows;
}

// S-2: the table of mutants is that of the sources, and the files with hooks are those that the build compiles again.
TEST(Mutants, TheTableIsComplete) {
  std::set<std::string> in_table;
  std::size_t caught = 0;
  for (const MutantRow& row : mutant_table()) {
    EXPECT_TRUE(in_table.insert(row.name).second) << row.name;
    caught += row.seeds > 0 ? 1 : 0;
    EXPECT_LE(row.seeds, 1000U) << row.name;
    EXPECT_NE(row.checkers, "") << row.name << ": what caught it, or why it survives";
  }
  EXPECT_GE(caught, 40U);
  std::set<std::string> in_sources;
  const std::string list = file_text(std::filesystem::path(kSourceDir) / "src/sim/CMakeLists.txt");
  for (const std::string macro : {"ROTA_GUARD", "ROTA_SOMETIMES"}) {
    for (const auto& [name, path] : find_hooks(kSourceDir, macro)) {
      if (macro == "ROTA_GUARD") in_sources.insert(name);
      EXPECT_TRUE(path.ends_with(".cc")) << path << ": hooks are for .cc files";
      EXPECT_NE(list.find(path), std::string::npos) << path << " has hooks and is not in src/sim/CMakeLists.txt";
    }
  }
  EXPECT_EQ(in_table, in_sources);
}

// S-2: the simulator catches mutants within 1,000 seeds: all but those that are known to survive. `./dev sim --mutants`
// does the same from three starts. The runs are the same each time, so this cannot flicker.
TEST(Mutants, AreCaught) {
  if (!has_mutants()) GTEST_SKIP() << "the build of a sanitizer has no mutants";
  for (const MutantRow& row : mutant_table()) {
    if (row.seeds == 0) continue;
    SweepOptions options;
    options.seeds = 1000;
    options.processes = 2;
    options.mutant = row.name;
    options.twice_every = 0;
    options.seed_within = std::chrono::seconds(5);  // A mutant may make a run endless: that is caught, too.
    EXPECT_FALSE(sweep(options).failures.empty()) << row.name << " survives " << options.seeds << " seeds";
  }
}

// S-2: a failing seed shrinks to a scenario of one screen that fails in the same way.
TEST(Shrink, MakesAFailureSmall) {
  if (!has_mutants()) GTEST_SKIP() << "the build of a sanitizer has no mutants";
  const std::string mutant = "host: effects after durability";
  SweepOptions options;
  options.seeds = 400;
  options.mutant = mutant;
  options.twice_every = 0;
  const SweepResult result = sweep(options);
  ASSERT_FALSE(result.failures.empty());
  const SeedFailure& failure = result.failures.front();
  const Scenario scenario = draw_scenario(failure.seed);
  const StillFails same = [&](const Scenario& candidate) {
    return judge_apart(candidate, mutant).checker == failure.violation.checker;
  };
  ASSERT_TRUE(same(scenario));
  const Shrunk shrunk = shrink(scenario, same, 300);
  EXPECT_TRUE(same(shrunk.scenario));
  const std::string text = to_text(shrunk.scenario);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 25) << text;
  EXPECT_LT(text.size(), to_text(scenario).size());
}

}  // namespace
}  // namespace rota::sim
