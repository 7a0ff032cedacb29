// Our part of the rows about a fleet over Redis (P-14): a host with a ledger on disk in this process, a redis-server on
// loopback, and worker processes (this program again) with handlers that do nothing, or use 1 ms of processor time.
// Decisions are durable.
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bus/redis_bus.h"
#include "common/disk.h"
#include "fleet/event.h"
#include "host/host.h"
#include "host_specs.h"
#include "ledger/disk_ledger.h"
#include "net/redis_url.h"
#include "net/stream.h"
#include "rota.h"
#include "rota/worker.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace {

namespace fleet = rota::fleet;
namespace model = rota::model;
using bench::Figures;
using namespace std::chrono_literals;

constexpr std::uint64_t kTasksEach = 200;    // redis_busy.
constexpr std::int64_t kTaskNs = 1'000'000;  // redis_busy.

// What the fleet consists of: processes, and workers in each of them.
struct Shape {
  unsigned processes = 2;
  unsigned workers_each = 1;
  std::uint32_t queue = 500;  // Tasks sent ahead to each worker.
};

std::int64_t cpu_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// A process that ends with this object.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t quiet;
    ::posix_spawn_file_actions_init(&quiet);
    ::posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
    if (::posix_spawnp(&pid_, words[0], &quiet, nullptr, words.data(), environ) != 0) {
      bench::fail("cannot start " + command.front());
    }
    ::posix_spawn_file_actions_destroy(&quiet);
  }
  ~Process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

 private:
  pid_t pid_ = 0;
};

struct Watcher final : rota::host::HostObserver {
  std::atomic<std::uint64_t> registered{0}, succeeded{0};
  bench::fiber::Event news, ended;

  void on_record(const fleet::Record& record) override {
    for (const fleet::Event& event : record.events) {
      if (std::holds_alternative<fleet::TaskSucceeded>(event)) succeeded.fetch_add(1);
      if (std::holds_alternative<fleet::WorkerRegistered>(event)) {
        registered.fetch_add(1);
        news.set();
      }
      if (std::holds_alternative<fleet::WorkflowEnded>(event)) ended.set();
    }
  }
};

class Fleet {
 public:
  Fleet(const bench::Scratch& scratch, const Shape& shape, bench::fiber::Nursery& nursery)
      : socket_(scratch.file("redis.sock")),
        redis_({"redis-server", "--port", "0", "--unixsocket", socket_, "--save", "", "--appendonly", "no"}) {
    rota::ledger::DiskOptions disk;
    disk.path = scratch.file("ledger");
    ledger_ = std::move(rota::ledger::DiskLedger::open(disk)).value();
    rota::bus::RedisBusOptions options;
    const std::string url = "redis+unix://" + socket_;
    options.url = rota::net::RedisUrl::parse(url).value();
    end_ = std::move(rota::bus::RedisHostEnd::open(rota::net::real_network(), options, nursery)).value();
    if (const auto connected = end_->await_connected(120s); !connected.ok()) bench::fail(connected.error().to_string());
    rota::host::HostOptions host_options;
    host_options.policy.emplace();
    host_options.policy->max_queue_per_worker = shape.queue;
    host_ = std::make_unique<rota::host::Host>(*ledger_, *end_, std::move(host_options), &watcher_);
    hosting_ = nursery.spawn([this] { return host_->run(); });
    for (unsigned i = 0; i < shape.processes; ++i) {
      workers_.push_back(std::make_unique<Process>(std::vector<std::string>{
          "/proc/self/exe", "redis_worker", url, "w" + std::to_string(i), std::to_string(shape.workers_each)}));
    }
    while (watcher_.registered.load() < shape.processes * shape.workers_each) {
      watcher_.news.wait();
      watcher_.news.reset();
    }
  }
  ~Fleet() {
    host_->stop();
    if (const auto hosted = hosting_.get(); !hosted.ok()) bench::fail(hosted.error().to_string());
    end_->close();
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // To its end.
  void run(const model::WorkflowSpec& spec) {
    watcher_.ended.reset();
    if (const auto done = host_->execute(fleet::SubmitWorkflow{{}, spec}); !done.ok()) {
      bench::fail(done.error().to_string());
    }
    watcher_.ended.wait();
  }
  std::uint64_t succeeded() const { return watcher_.succeeded.load(); }
  std::uint64_t registered() const { return watcher_.registered.load(); }

 private:
  const std::string socket_;
  Process redis_;
  Watcher watcher_;
  std::unique_ptr<rota::ledger::DiskLedger> ledger_;
  std::unique_ptr<rota::bus::RedisHostEnd> end_;
  std::unique_ptr<rota::host::Host> host_;
  std::vector<std::unique_ptr<Process>> workers_;
  bench::fiber::Task<rota::Result<void>> hosting_;
};

template <typename Body>
double with_fleet(unsigned threads, const Shape& shape, const Body& body) {
  const bench::Scratch scratch;
  return bench::on_workers(threads, [&] {
    double figure = 0;
    bench::fiber::with_scope([&](bench::fiber::Nursery& nursery) {
      Fleet fleet(scratch, shape, nursery);
      figure = body(fleet);
    });
    return figure;
  });
}

Figures run_spec(unsigned threads, const model::WorkflowSpec& spec, std::uint64_t count) {
  return {with_fleet(threads, {}, [&](Fleet& fleet) {
    std::uint64_t runs = 0;
    const double ns = bench::measure_ns_each(count, [&] {
      fleet.run(spec);
      ++runs;
    });
    bench::expect(fleet.succeeded() / runs, count);
    return ns / 1000;
  })};
}

Figures run_flat(unsigned threads, std::uint64_t count) { return run_spec(threads, bench::flat_spec(count), count); }
Figures run_chain(unsigned threads, std::uint64_t count) { return run_spec(threads, bench::chain_spec(count), count); }

Figures run_round_trip(unsigned threads, std::uint64_t count) {
  return {with_fleet(threads, {}, [&](Fleet& fleet) {
    const model::WorkflowSpec spec = bench::flat_spec(1);
    fleet.run(spec);
    std::vector<double> us;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t begun_ns = bench::now_ns();
      fleet.run(spec);
      us.push_back(static_cast<double>(bench::now_ns() - begun_ns) / 1000);
    }
    bench::expect(fleet.succeeded() - 1, count);
    return bench::median(std::move(us));
  })};
}

// The processor time of this process, the host, while `count` workers only send heartbeats.
Figures run_idle(unsigned threads, std::uint64_t count) {
  return {with_fleet(threads, {.processes = 1, .workers_each = static_cast<unsigned>(count)}, [&](Fleet& fleet) {
    (void)bench::fiber::sleep_for(2s);  // The last registrations are acknowledged.
    const std::int64_t used_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    const std::uint64_t begun_ns = bench::now_ns();
    (void)bench::fiber::sleep_for(10s);
    const auto used = static_cast<double>(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - used_ns);
    bench::expect(fleet.registered(), count);
    return 100 * used / static_cast<double>(bench::now_ns() - begun_ns);
  })};
}

// How much longer than the processor time of the tasks alone, in percent.
Figures run_busy(unsigned threads, std::uint64_t count) {
  const Shape shape{.processes = static_cast<unsigned>(count), .queue = 16};
  return {with_fleet(threads, shape, [&](Fleet& fleet) {
    model::WorkflowSpec spec = bench::flat_spec(count * kTasksEach);
    for (model::TaskTemplate& each : spec.templates) each.spec.type = "spin";
    const std::uint64_t begun_ns = bench::now_ns();
    fleet.run(spec);
    const auto took = static_cast<double>(bench::now_ns() - begun_ns);
    bench::expect(fleet.succeeded(), count * kTasksEach);
    const double cores = std::max(std::thread::hardware_concurrency(), 1U);
    return 100 * (took * cores / static_cast<double>(count * kTasksEach * kTaskNs) - 1);
  })};
}

constexpr bench::Work kWorks[] = {
    {"redis_flat", 10'000, run_flat}, {"redis_chain", 1'000, run_chain}, {"redis_round_trip", 500, run_round_trip},
    {"redis_idle", 1'000, run_idle},  {"redis_busy", 100, run_busy},
};

}  // namespace

std::span<const bench::Work> bench::rota_redis_works() { return kWorks; }

int bench::redis_worker(const char* url, const char* name, unsigned count) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // Each worker has two connections.
  ::setrlimit(RLIMIT_NOFILE, &files);
  const auto join = [&](unsigned number) -> rota::Result<void> {
    rota::WorkerOptions options;
    options.spec.name = name + (count > 1 ? "-" + std::to_string(number) : std::string());
    options.spec.resources.cpu_millis = 1000;
    options.spec.resources.memory_bytes = 1 << 30;
    options.detect_resources = false;
    options.spec.programs = false;
    rota::Worker worker(std::move(options));
    worker.handle("noop", [](rota::TaskContext&) -> std::string { return "null"; }).value();
    worker
        .handle("spin",
                [](rota::TaskContext&) -> std::string {
                  const std::int64_t until = cpu_ns(CLOCK_THREAD_CPUTIME_ID) + kTaskNs;
                  while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
                  }
                  return "null";
                })
        .value();
    return worker.join({.redis = url});
  };
  fiber::Runtime runtime({.worker_count = 1});
  const rota::Result<void> left = runtime.run([&] {
    rota::Result<void> first;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      for (unsigned i = 1; i < count; ++i) nursery.launch([&join, i] { (void)join(i); });
      first = join(0);
    });
    return first;
  });
  return left.ok() ? 0 : 1;
}
