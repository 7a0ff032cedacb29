// Our part of the rows about the host (P-13): host, bus, worker and a ledger on disk in one process, with C++ handlers
// that do nothing. Each row twice: a decision acts when it is durable, and with a ledger that syncs at checkpoints
// only. The rows etcd_flat and etcd_chain (P-19) are the same on the ledger that three etcd servers replicate.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bus/local.h"
#include "common/disk.h"
#include "etcd_servers.h"
#include "fleet/event.h"
#include "host/host.h"
#include "host_specs.h"
#include "ledger/disk_ledger.h"
#include "ledger/replicated_ledger.h"
#include "rota.h"
#include "rota/worker.h"

namespace {

namespace fleet = rota::fleet;
namespace model = rota::model;
namespace ledger = rota::ledger;
using bench::Figures;
using ledger::Durability;

constexpr std::array kDurabilities = {Durability::kFull, Durability::kRelaxed};

// Counts what ends.
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

// A host with one worker in this process. Its tasks are started by submit() and counted by handled().
class Fleet {
 public:
  // `replica` is the ledger if other hosts could share it, otherwise null.
  Fleet(unsigned threads, ledger::Ledger& log, ledger::ReplicatedLedger* replica, bench::fiber::Nursery& nursery)
      : end_(bus_.connect("local").value()) {
    rota::host::HostOptions options;
    std::vector<rota::bus::HostEnd*> buses = {&bus_.host()};
    if (replica != nullptr) {
      options.follow = true;
      options.replica = replica;
      options.open_buses = [buses](std::uint64_t) { return rota::Result<std::vector<rota::bus::HostEnd*>>(buses); };
      options.close_buses = [] {};
      buses.clear();
    }
    options.policy.emplace();
    // About as many as it does while a group syncs wait at the worker; there is no other that would rather have them.
    options.policy->max_queue_per_worker = 500;
    host_ = std::make_unique<rota::host::Host>(log, buses, std::move(options), &watcher_);
    rota::WorkerOptions worker_options;
    worker_options.spec.name = "local";
    worker_options.spec.resources.cpu_millis = threads * 1000;
    worker_options.spec.resources.memory_bytes = 1 << 30;
    worker_options.detect_resources = false;
    worker_options.spec.programs = false;
    worker_ = std::make_unique<rota::Worker>(std::move(worker_options));
    const auto handled = worker_->handle("noop", [this](rota::TaskContext&) -> std::string {
      started_ns_.store(bench::now_ns(), std::memory_order_relaxed);
      handled_.fetch_add(1, std::memory_order_relaxed);
      return "null";
    });
    if (!handled.ok()) bench::fail(handled.error().to_string());
    hosting_ = nursery.spawn([this] { return host_->run(); });
    working_ = nursery.spawn([this] { return worker_->run(*end_); });
    while (watcher_.registered.load() == 0) watcher_.news.wait();
  }
  ~Fleet() {
    worker_->stop();
    working_.wait();
    host_->stop();
    if (const auto hosted = hosting_.get(); !hosted.ok()) bench::fail(hosted.error().to_string());
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
  std::uint64_t handled() const { return handled_.load(); }
  std::uint64_t succeeded() const { return watcher_.succeeded.load(); }
  // When the last handler began.
  std::uint64_t started_ns() const { return started_ns_.load(); }

 private:
  rota::bus::LocalBus bus_;
  std::unique_ptr<rota::bus::WorkerEnd> end_;
  Watcher watcher_;
  std::unique_ptr<rota::host::Host> host_;
  std::unique_ptr<rota::Worker> worker_;
  std::atomic<std::uint64_t> handled_{0}, started_ns_{0};
  bench::fiber::Task<rota::Result<void>> hosting_, working_;
};

std::unique_ptr<ledger::DiskLedger> open_at(const std::string& path, Durability durability) {
  ledger::DiskOptions options;
  options.path = path;
  options.durability = durability;
  auto opened = ledger::DiskLedger::open(options);
  if (!opened.ok()) bench::fail(opened.error().to_string());
  return std::move(opened).value();
}

template <typename Body>
double with_fleet(unsigned threads, Durability durability, const Body& body) {
  const bench::Scratch scratch;
  return bench::on_workers(threads, [&] {
    double figure = 0;
    bench::fiber::with_scope([&](bench::fiber::Nursery& nursery) {
      const std::unique_ptr<ledger::DiskLedger> log = open_at(scratch.file("ledger"), durability);
      Fleet fleet(threads, *log, nullptr, nursery);
      figure = body(fleet);
    });
    return figure;
  });
}

template <typename Body>
double with_replicated_fleet(unsigned threads, const Body& body) {
  bench::EtcdServers servers;
  return bench::on_workers(threads, [&] {
    double figure = 0;
    bench::fiber::with_scope([&](bench::fiber::Nursery& nursery) {
      const std::unique_ptr<ledger::kv::Store> store = servers.connect(nursery);
      auto log = ledger::ReplicatedLedger::open(*store, {.name = "http://bench"}, nursery, std::chrono::seconds(60));
      if (!log.ok()) bench::fail(log.error().to_string());
      {
        Fleet fleet(threads, **log, log->get(), nursery);
        figure = body(fleet);
      }
      if (const auto closed = (*log)->close(); !closed.ok()) bench::fail(closed.error().to_string());
    });
    return figure;
  });
}

// Microseconds a task from the submission until its workflow's end is durable.
double measure_spec(Fleet& fleet, const model::WorkflowSpec& spec, std::uint64_t count) {
  std::uint64_t runs = 0;
  const double ns = bench::measure_ns_each(count, [&] {
    fleet.run(spec);
    ++runs;
  });
  if (fleet.handled() != fleet.succeeded()) bench::fail("a task ran more than once");
  bench::expect(fleet.handled() / runs, count);
  return ns / 1000;
}

Figures run_spec(unsigned threads, const model::WorkflowSpec& spec, std::uint64_t count) {
  Figures figures;
  for (const Durability durability : kDurabilities) {
    figures.push_back(with_fleet(threads, durability, [&](Fleet& fleet) { return measure_spec(fleet, spec, count); }));
  }
  return figures;
}

Figures run_replicated(unsigned threads, const model::WorkflowSpec& spec, std::uint64_t count) {
  return {with_replicated_fleet(threads, [&](Fleet& fleet) { return measure_spec(fleet, spec, count); })};
}

Figures run_flat(unsigned threads, std::uint64_t count) { return run_spec(threads, bench::flat_spec(count), count); }
Figures run_chain(unsigned threads, std::uint64_t count) { return run_spec(threads, bench::chain_spec(count), count); }
Figures run_layers(unsigned threads, std::uint64_t count) {
  count -= count % bench::kLayerWidth;
  return run_spec(threads, bench::layers_spec(count), count);
}

// Microseconds from the submission of one task to its handler's first instruction, nothing else being there; half of
// all are shorter.
Figures run_start(unsigned threads, std::uint64_t count) {
  Figures figures;
  const model::WorkflowSpec spec = bench::flat_spec(1);
  for (const Durability durability : kDurabilities) {
    figures.push_back(with_fleet(threads, durability, [&](Fleet& fleet) {
      fleet.run(spec);
      std::vector<double> us;
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t submitted_ns = bench::now_ns();
        fleet.run(spec);
        us.push_back(static_cast<double>(fleet.started_ns() - submitted_ns) / 1000);
      }
      bench::expect(fleet.handled() - 1, count);
      return bench::median(std::move(us));
    }));
  }
  return figures;
}

Figures run_etcd_flat(unsigned threads, std::uint64_t count) {
  return run_replicated(threads, bench::flat_spec(count), count);
}
Figures run_etcd_chain(unsigned threads, std::uint64_t count) {
  return run_replicated(threads, bench::chain_spec(count), count);
}

constexpr bench::Work kWorks[] = {
    {"host_flat", 10'000, run_flat}, {"host_chain", 1'000, run_chain},     {"host_layers", 10'000, run_layers},
    {"host_start", 500, run_start},  {"etcd_flat", 10'000, run_etcd_flat}, {"etcd_chain", 200, run_etcd_chain},
};

}  // namespace

std::span<const bench::Work> bench::rota_host_works() { return kWorks; }
