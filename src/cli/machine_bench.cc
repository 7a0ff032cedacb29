#include "cli/machine_bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "fleet/brain.h"
#include "ledger/disk_ledger.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/time.h"

namespace rota::cli {

namespace {

constexpr int kRounds = 5;
constexpr std::size_t kRecordBytes = 200;  // As a record of the log has.

std::uint64_t scaled(const BenchSetup& setup, std::uint64_t count) {
  return setup.quick ? std::max<std::uint64_t>(count / 20, 1) : count;
}

double elapsed_ns(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - since).count();
}

// The median over the rounds of the time for one of `count`.
template <class Work>
Result<double> median_each(std::uint64_t count, Work&& work) {
  std::array<double, kRounds> rounds{};
  for (double& round : rounds) {
    const auto since = std::chrono::steady_clock::now();
    ROTA_TRY(work());
    round = elapsed_ns(since) / static_cast<double>(count);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// A folder of its own in the one that was given, removed with everything in it.
class Scratch {
 public:
  static Result<std::unique_ptr<Scratch>> make(const BenchSetup& setup) {
    std::string path = setup.folder + "/rota-bench-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return Error{ErrorCode::kIoError, "cannot write to '" + setup.folder +
                                            "': " + std::generic_category().message(errno) +
                                            "; choose another folder with --dir"};
    }
    return std::unique_ptr<Scratch>(new Scratch(std::move(path)));
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// -------------------------------------------------------------------------------------------------------------- fibers

Result<double> measure_switch(const BenchSetup& setup) {
  const std::uint64_t count = scaled(setup, 1'000'000);
  fiber::Runtime runtime({.worker_count = 1});
  return runtime.run([&] {
    return median_each(2 * count, [&]() -> Result<void> {
      fiber::with_scope([&](fiber::Nursery& scope) {
        for (int i = 0; i < 2; ++i) {
          scope.launch([&] {
            for (std::uint64_t n = 0; n < count; ++n) fiber::yield();
          });
        }
      });
      return {};
    });
  });
}

Result<double> measure_spawn(const BenchSetup& setup) {
  const std::uint64_t count = scaled(setup, 1'000'000);
  fiber::Runtime runtime({.worker_count = 1});
  return runtime.run([&] {
    return median_each(count, [&]() -> Result<void> {
      fiber::with_scope([&](fiber::Nursery& scope) {
        for (std::uint64_t i = 0; i < count; ++i) scope.launch([] {});
      });
      return {};
    });
  });
}

// ---------------------------------------------------------------------------------------------------------------- disk

Result<double> measure_sync(const BenchSetup& setup) {
  const std::uint64_t count = scaled(setup, 200);
  ROTA_TRY_ASSIGN(const std::unique_ptr<Scratch> scratch, Scratch::make(setup));
  const std::string path = scratch->file("sync");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return Error{ErrorCode::kIoError, "cannot create " + path};
  const std::string bytes(kRecordBytes, 'x');
  Result<double> each = median_each(count, [&]() -> Result<void> {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) || ::fdatasync(fd) != 0) {
        return Error{ErrorCode::kIoError, "cannot write " + path + ": " + std::generic_category().message(errno)};
      }
    }
    return {};
  });
  ::close(fd);
  return each;
}

Result<double> measure_records(const BenchSetup& setup, std::uint64_t count, std::uint64_t group) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<Scratch> scratch, Scratch::make(setup));
  ledger::DiskOptions options;
  options.path = scratch->file("ledger.db");
  ROTA_TRY_ASSIGN(const std::unique_ptr<ledger::DiskLedger> log, ledger::DiskLedger::open(options));
  std::vector<ledger::RecordBytes> records(group);
  fiber::Runtime runtime({.worker_count = 1});
  return runtime.run([&] {
    return median_each(count * group, [&]() -> Result<void> {
      for (std::uint64_t i = 0; i < count; ++i) {
        for (std::uint64_t n = 0; n < group; ++n) {
          records[n] = {log->submitted_index() + 1 + n, std::string(kRecordBytes, 'x')};
        }
        ROTA_TRY(log->append(records));
      }
      return {};
    });
  });
}

Result<double> measure_record(const BenchSetup& setup) { return measure_records(setup, scaled(setup, 200), 1); }
Result<double> measure_group(const BenchSetup& setup) { return measure_records(setup, scaled(setup, 100), 128); }

// ----------------------------------------------------------------------------------------------------------- decisions

// A hundred workers of ten kinds, with one task each and a long queue: each end of a task is a decision that starts the
// next one. The record is encoded, as it would be for the ledger.
Result<double> measure_decision(const BenchSetup& setup) {
  constexpr std::uint64_t kWorkers = 100;
  const std::uint64_t count = scaled(setup, 20'000);
  fleet::Brain brain;
  fleet::Record record;
  std::string bytes;
  Hash128 chain = fleet::first_chain();
  std::vector<model::AttemptId> running;
  std::int64_t now_ns = 1'000'000'000;
  const auto execute = [&](fleet::Command command) -> Result<void> {
    now_ns += 1'000;
    ROTA_TRY(brain.execute(std::move(command), now_ns, record));
    bytes.clear();
    if (record.index != 0) chain = fleet::encode_record(record, chain, bytes);
    for (const fleet::Event& event : record.events) {
      if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
        running.push_back({assigned->task, assigned->attempt});
      }
    }
    return {};
  };
  fleet::SetPolicy policy;
  policy.policy.retention_ms = 0;
  ROTA_TRY(execute(policy));
  for (std::uint64_t i = 0; i < kWorkers; ++i) {
    fleet::RegisterWorker worker;
    worker.worker.name = "worker-" + std::to_string(i);
    worker.worker.resources.cpu_millis = 1000;
    worker.worker.resources.memory_bytes = static_cast<std::int64_t>(8 + i % 10) << 30;
    ROTA_TRY(execute(std::move(worker)));
  }
  return median_each(count, [&]() -> Result<void> {
    fleet::SubmitWorkflow submission;
    submission.workflow.name = "bench";
    model::TaskTemplate& use = submission.workflow.templates.emplace_back();
    use.spec.type = "shell";
    use.spec.program = model::ProgramSpec{.shell = "true"};
    submission.workflow.stages.resize(1);
    submission.workflow.stages[0].name = "work";
    submission.workflow.stages[0].items.assign(std::max<std::uint64_t>(count, 2), "{}");
    ROTA_TRY(execute(std::move(submission)));
    while (!running.empty()) {
      fleet::ReportEnded report{running.back().task, running.back().attempt, {}};
      running.pop_back();
      report.outcome.end = model::AttemptEnd::kSucceeded;
      report.outcome.started_ns = report.outcome.ended_ns = now_ns;
      ROTA_TRY(execute(std::move(report)));
    }
    return {};
  });
}

// ----------------------------------------------------------------------------------------------------------- processes

// Runs it to its end, without input and output.
Result<void> run_to_end(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  (void)::posix_spawn_file_actions_init(&actions);
  (void)::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  (void)::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  (void)::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  (void)::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Error{ErrorCode::kUnavailable,
                 "cannot start '" + arguments[0] + "': " + std::generic_category().message(error)};
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Error{ErrorCode::kInternal, "waitpid failed"};
  }
  if (status != 0) return Error{ErrorCode::kInternal, "'" + arguments[0] + "' did not succeed"};
  return {};
}

// As many at a time as there are processors, like `rota run`.
Result<double> measure_process(const BenchSetup& setup) {
  const unsigned threads = std::max(std::thread::hardware_concurrency(), 1U);
  const std::uint64_t each = std::max<std::uint64_t>(scaled(setup, 400) / threads, 1);
  return median_each(each * threads, [&]() -> Result<void> {
    std::vector<Result<void>> ends(threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < each && ends[t].ok(); ++i) ends[t] = run_to_end({"true"});
      });
    }
    for (std::thread& thread : all) thread.join();
    for (Result<void>& end : ends) ROTA_TRY(std::move(end));
    return {};
  });
}

Result<double> measure_task(const BenchSetup& setup) {
  const std::uint64_t count = scaled(setup, 400);
  ROTA_TRY_ASSIGN(const std::unique_ptr<Scratch> scratch, Scratch::make(setup));
  const std::string path = scratch->file("bench.yaml");
  std::string items = "0";
  for (std::uint64_t i = 1; i < count; ++i) items += ", " + std::to_string(i);
  std::ofstream file(path);
  file << "apiVersion: rota/v1\nspec:\n  stages:\n    - name: t\n      run: [\"true\"]\n      matrix: {i: [" << items
       << "]}\n";
  file.close();
  if (!file) return Error{ErrorCode::kIoError, "cannot write " + path};
  return median_each(count, [&] { return run_to_end({setup.program, "run", path, "--fresh", "--quiet"}); });
}

}  // namespace

const std::vector<BenchRow>& bench_rows() {
  static const std::vector<BenchRow> rows{
      {"switch", "a switch between two fibers", measure_switch},
      {"spawn", "a fiber task, from spawn to join", measure_spawn},
      {"sync", "a write and a sync of the disk", measure_sync},
      {"record", "a durable record, one at a time", measure_record},
      {"group", "a durable record, in groups of 128", measure_group},
      {"decision", "a decision about 100 workers", measure_decision},
      {"process", "a program (true), one per processor at a time", measure_process},
      {"task", "a task of rota run (true), decided and recorded", measure_task},
  };
  return rows;
}

}  // namespace rota::cli
