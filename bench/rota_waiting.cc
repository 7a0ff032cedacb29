// Our part of the table where tasks wait for each other: P-5 channels, P-6 blocked tasks, P-8 cancelling blocked ones,
// F-6 deadlines while nobody waits.
#include <atomic>
#include <cstdint>
#include <vector>

#include "rota.h"

namespace {

namespace fiber = rota::fiber;
using bench::Figures;
using bench::now_ns;
using bench::on_workers;

using Messages = fiber::Channel<std::uint64_t>;

Figures run_channel(unsigned threads, std::uint64_t count) {
  if (threads != 1) bench::fail("one thread; channel_cross is for two");
  return on_workers(threads, [&]() -> Figures {
    std::uint64_t sum = 0;
    const double ns = bench::measure_ns_each(count, [&] {
      sum = 0;
      const Messages there(1), back(1);
      fiber::with_scope([&](fiber::Nursery& scope) {
        scope.launch([&] {
          for (std::uint64_t i = 0; i < count; ++i) (void)back.send(*there.receive());
        });
        for (std::uint64_t i = 0; i < count; ++i) {
          (void)there.send(1);
          sum += *back.receive();
        }
      });
    });
    bench::expect(sum, count);
    return {ns};
  });
}

// Which worker this is: a message carries the sender's, so that its receiver can tell whether it crossed.
std::uint64_t this_worker() { return reinterpret_cast<std::uint64_t>(fiber::detail::current_worker()); }

// The two meet first, so that each has a worker of its own.
Figures run_channel_cross(unsigned threads, std::uint64_t count) {
  if (threads != 2) bench::fail("two threads; channel is for one");
  return on_workers(threads, [&]() -> Figures {
    std::uint64_t received = 0, crossed = 0;
    const double ns = bench::measure([&] {
      received = crossed = 0;
      const Messages there(1), back(1);
      std::atomic<unsigned> arrived{0};
      const auto meet = [&] {
        arrived.fetch_add(1);
        while (arrived.load() < 2) bench::spin_pause();
      };
      std::uint64_t start_ns = 0;
      fiber::with_scope([&](fiber::Nursery& scope) {
        scope.launch([&] {
          meet();
          for (std::uint64_t i = 0; i < count; ++i) {
            (void)*there.receive();
            (void)back.send(this_worker());
          }
        });
        meet();
        start_ns = now_ns();
        for (std::uint64_t i = 0; i < count; ++i) {
          (void)there.send(this_worker());
          const std::uint64_t sender = *back.receive();
          crossed += sender != this_worker() ? 1 : 0;
          ++received;
        }
      });
      return static_cast<double>(now_ns() - start_ns) / static_cast<double>(count);
    });
    bench::expect(received, count);
    return {ns, static_cast<double>(crossed) / static_cast<double>(count)};
  });
}

Figures run_blocked(unsigned threads, std::uint64_t count) {
  fiber::Config config;
  config.stack_bytes = 16 * 1024;  // A million of the usual ones would not fit the address space.
  return on_workers(threads, config, [&]() -> Figures {
    fiber::Event gate;
    std::atomic<std::uint64_t> started{0}, passed{0};
    double bytes = 0;
    std::uint64_t start = 0, made = 0, release = 0;
    fiber::with_scope([&](fiber::Nursery& scope) {
      const double before_bytes = bench::resident_bytes();
      start = now_ns();
      for (std::uint64_t i = 0; i < count; ++i) {
        scope.launch([&] {
          started.fetch_add(1, std::memory_order_relaxed);
          gate.wait();
          passed.fetch_add(1, std::memory_order_relaxed);
        });
      }
      while (started.load() < count) fiber::yield();
      made = now_ns();
      bytes = (bench::resident_bytes() - before_bytes) / static_cast<double>(count);
      release = now_ns();
      gate.set();
    });
    const std::uint64_t joined = now_ns();
    bench::expect(passed.load(), count);
    return {bytes, static_cast<double>(made - start) / 1e9, static_cast<double>(joined - release) / 1e9};
  });
}

Figures run_cancel_blocked(unsigned threads, std::uint64_t count) {
  fiber::Event never;
  const auto wait = [&never] { (void)never.wait(std::nothrow); };
  return bench::measure_cancel(threads, count, wait, [] {});
}

Figures run_cancel_channels(unsigned threads, std::uint64_t count) {
  const auto wait = [] { (void)fiber::Channel<int>().receive(std::nothrow); };
  return bench::measure_cancel(threads, count, wait, [] {});
}

// One task on each worker polls until its deadline, again and again, and never yields; how late it sees the deadline.
Figures run_deadline_busy(unsigned threads, std::uint64_t count) {
  using namespace std::chrono_literals;
  return on_workers(threads, [&]() -> Figures {
    std::vector<std::vector<double>> late_us(threads);
    std::atomic<unsigned> arrived{0}, left{0};
    fiber::with_scope([&](fiber::Nursery& scope) {
      for (std::vector<double>& mine : late_us) {
        scope.launch([&] {
          arrived += 1;
          while (arrived.load() < threads) bench::spin_pause();  // From here on every worker is busy.
          while (mine.size() < count) {
            const std::uint64_t start_ns = now_ns();
            (void)fiber::with_deadline(2ms, [](fiber::Nursery&) {
              while (fiber::check_cancelled().ok()) bench::spin_pause();
            });
            mine.push_back((static_cast<double>(now_ns() - start_ns) - 2e6) / 1e3);
          }
          left += 1;
          while (left.load() < threads) bench::spin_pause();
        });
      }
    });
    std::vector<double> all;
    for (const std::vector<double>& mine : late_us) all.insert(all.end(), mine.begin(), mine.end());
    bench::expect(all.size(), count * threads);
    return {bench::percentile(all, 0.5), bench::percentile(all, 0.99)};
  });
}

constexpr bench::Work kWorks[] = {
    {"channel", 500'000, run_channel},
    {"channel_cross", 500'000, run_channel_cross},
    {"blocked", 1'000'000, run_blocked},
    {"cancel_blocked", 10'000, run_cancel_blocked},
    {"cancel_channels", 10'000, run_cancel_channels},
    {"deadline_busy", 500, run_deadline_busy},
};

}  // namespace

std::span<const bench::Work> bench::rota_waiting_works() { return kWorks; }
