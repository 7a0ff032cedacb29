// The limit of the rows about the replicated ledger (P-19): three etcd servers alone. The bytes of a group are put
// under a new key, one transaction after the other, over the same client; nothing is compared, and nothing is kept in
// memory.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/disk.h"
#include "etcd_servers.h"
#include "rota.h"

namespace {

namespace kv = rota::ledger::kv;
using bench::Figures;

Figures run_groups(unsigned threads, std::uint64_t count, std::uint64_t group) {
  const bench::EtcdServers servers;
  return bench::on_workers(threads, [&]() -> Figures {
    double ns = 0;
    bench::fiber::with_scope([&](bench::fiber::Nursery& nursery) {
      const std::unique_ptr<kv::Store> store = servers.connect(nursery);
      std::uint64_t written = 0;
      std::uint64_t runs = 0;
      ns = bench::measure_ns_each(count, [&] {
        for (std::uint64_t done = 0; done < count;) {
          std::string bytes;
          const std::string key = "bare/" + std::to_string(written);
          for (std::uint64_t i = 0; i < group && done < count; ++i, ++done) bytes += bench::record_bytes(++written);
          kv::Txn txn;
          txn.success.emplace_back(kv::Put{.key = key, .value = std::move(bytes)});
          if (const auto put = store->txn(txn, std::chrono::seconds(60)); !put.ok()) {
            bench::fail(put.error().to_string());
          }
        }
        ++runs;
      });
      bench::expect(written / runs, count);
    });
    return {ns / 1000};
  });
}

Figures run_1(unsigned threads, std::uint64_t count) { return run_groups(threads, count, 1); }
Figures run_128(unsigned threads, std::uint64_t count) { return run_groups(threads, count, bench::kGroup); }

constexpr bench::Work kWorks[] = {
    {"etcd_1", 500, run_1},
    {"etcd_128", 25'600, run_128},
    {"etcd_chain", 200, run_1},
};

}  // namespace

int main(int argc, char** argv) { return bench::main_of(argc, argv, kWorks); }
