// Our part of the table for the ledger: durable records in groups of one and of 128, relaxed ones, recovery (P-11); and
// the same groups replicated on three etcd servers (P-19).
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/disk.h"
#include "etcd_servers.h"
#include "ledger/disk_ledger.h"
#include "ledger/etcd_ledger.h"
#include "rota.h"

namespace {

namespace ledger = rota::ledger;
using bench::Figures;

std::unique_ptr<ledger::DiskLedger> open_at(const std::string& path, ledger::Durability durability) {
  ledger::DiskOptions options;
  options.path = path;
  options.durability = durability;
  auto opened = ledger::DiskLedger::open(options);
  if (!opened.ok()) bench::fail(opened.error().to_string());
  return std::move(opened).value();
}

// Appends `count` records, each group when the one before is durable.
void append(ledger::Ledger& log, std::uint64_t count, std::uint64_t group) {
  std::vector<ledger::RecordBytes> records;
  for (std::uint64_t done = 0; done < count; done += records.size()) {
    records.clear();
    const std::uint64_t next = log.submitted_index() + 1;
    for (std::uint64_t i = 0; i < std::min(group, count - done); ++i) {
      records.push_back({next + i, bench::record_bytes(next + i)});
    }
    if (const auto appended = log.append(records); !appended.ok()) bench::fail(appended.error().to_string());
  }
}

// Microseconds a record, from one task.
Figures run_groups(unsigned threads, std::uint64_t count, std::uint64_t group, ledger::Durability durability) {
  const bench::Scratch scratch;
  const std::unique_ptr<ledger::DiskLedger> log = open_at(scratch.file("ledger"), durability);
  return bench::on_workers(threads, [&]() -> Figures {
    std::uint64_t runs = 0;
    const double ns = bench::measure_ns_each(count, [&] {
      append(*log, count, group);
      ++runs;
    });
    bench::expect(log->last_index() / runs, count);
    return {ns / 1000};
  });
}

Figures run_1(unsigned threads, std::uint64_t count) {
  return run_groups(threads, count, 1, ledger::Durability::kFull);
}
Figures run_128(unsigned threads, std::uint64_t count) {
  return run_groups(threads, count, bench::kGroup, ledger::Durability::kFull);
}
Figures run_relaxed(unsigned threads, std::uint64_t count) {
  return run_groups(threads, count, 1, ledger::Durability::kRelaxed);
}

// Seconds from open() to the last record in hand.
Figures run_recover(unsigned threads, std::uint64_t count) {
  const bench::Scratch scratch;
  const std::string path = scratch.file("ledger");
  append(*open_at(path, ledger::Durability::kRelaxed), count, 10'000);
  return bench::on_workers(threads, [&]() -> Figures {
    std::uint64_t sum = 0;
    const double seconds = bench::measure([&] {
      sum = 0;
      const std::uint64_t start = bench::now_ns();
      const std::unique_ptr<ledger::DiskLedger> log = open_at(path, ledger::Durability::kRelaxed);
      for (std::uint64_t next = log->first_index(); next <= log->last_index();) {
        const auto some = log->read(next, 10'000);
        if (!some.ok() || some->empty()) bench::fail("a record cannot be read");
        for (const ledger::RecordBytes& record : *some) sum += record.index + record.bytes.size();
        next += some->size();
      }
      return static_cast<double>(bench::now_ns() - start) / 1e9;
    });
    bench::expect(sum, bench::sum_of_records(count));
    return {seconds};
  });
}

// Microseconds a record on three etcd servers, from one task.
Figures run_replicated(unsigned threads, std::uint64_t count, std::uint64_t group) {
  const bench::EtcdServers servers;
  return bench::on_workers(threads, [&]() -> Figures {
    double ns = 0;
    bench::fiber::with_scope([&](bench::fiber::Nursery& nursery) {
      const std::unique_ptr<ledger::kv::Store> store = servers.connect(nursery);
      auto log = ledger::EtcdLedger::open(*store, {.name = "http://bench"}, nursery, std::chrono::seconds(60));
      if (!log.ok()) bench::fail(log.error().to_string());
      if (const auto leads = (*log)->campaign(std::chrono::seconds(60)); !leads.ok()) {
        bench::fail(leads.error().to_string());
      }
      std::uint64_t runs = 0;
      ns = bench::measure_ns_each(count, [&] {
        append(**log, count, group);
        ++runs;
      });
      bench::expect((*log)->last_index() / runs, count);
    });
    return {ns / 1000};
  });
}

Figures run_etcd_1(unsigned threads, std::uint64_t count) { return run_replicated(threads, count, 1); }
Figures run_etcd_128(unsigned threads, std::uint64_t count) { return run_replicated(threads, count, bench::kGroup); }

constexpr bench::Work kWorks[] = {
    {"ledger_1", 2'000, run_1},
    {"ledger_128", 51'200, run_128},
    {"ledger_relaxed", 20'000, run_relaxed},
    {"ledger_recover", 1'000'000, run_recover},
    {"etcd_1", 500, run_etcd_1},
    {"etcd_128", 25'600, run_etcd_128},
};

}  // namespace

std::span<const bench::Work> bench::rota_ledger_works() { return kWorks; }
