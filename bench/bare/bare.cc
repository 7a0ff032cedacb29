// The walls: what the machine itself charges for each row's work, with no runtime around it.
//
//   yield, channel      own assembly switch of two stacks (a round trip through a channel is two)
//   fib, skynet         the same calls with no task around them, `threads` times at once
//   spawn               a million records written, then called through their pointer
//   channel_cross       a cache line to another core and back
//   blocked             raw stacks: one page touched each, entered once to start and once to end
//   dag                 counters, a ready array, prefetch; layers split between threads that meet at a barrier
//   cancel_*            10,000 parked stacks entered in a row
//   deadline_busy       a thread that sleeps until a time and then sets a flag, for which `threads` threads spin
//   wake_awake/_parked  one cache line; one futex
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "bare/raw_stacks.h"
#include "bare/threads.h"
#include "common/bench.h"
#include "common/dag.h"
#include "common/wake.h"

namespace {

using bench::Figures;
using bench::on_threads;
using bench::SpinBarrier;

#if BENCH_HAS_SWAP

// Two stacks that enter each other for ever.
struct Pair {
  void* here = nullptr;
  void* there = nullptr;
};
thread_local Pair* pair;
void bounce() {
  Pair& mine = *pair;
  for (;;) bench::bench_swap(&mine.there, mine.here);
}

Figures run_yield(unsigned threads, std::uint64_t count) {
  const double ns = bench::measure([&] {
    return on_threads(threads, [&](unsigned) {
      bench::RawStacks stack(1);
      Pair mine;
      pair = &mine;
      mine.there = stack.prepare(0, bounce);
      for (std::uint64_t i = 0; i < count; ++i) bench::bench_swap(&mine.here, mine.there);
    });
  });
  return {ns / static_cast<double>(2 * count)};
}
Figures run_channel(unsigned threads, std::uint64_t count) { return {2 * run_yield(threads, count)[0]}; }

using Shares = std::vector<std::unique_ptr<bench::RawStacks>>;  // One a thread.
std::uint64_t resumed(const Shares& shares) {
  std::uint64_t sum = 0;
  for (const auto& share : shares) sum += share->resumed();
  return sum;
}

// Each thread makes its share of stacks, enters each to start it, and again to end it.
Figures run_blocked(unsigned threads, std::uint64_t count) {
  Shares shares(threads);
  const std::uint64_t share = count / threads;
  const double before_bytes = bench::resident_bytes();
  const double make_ns = on_threads(threads, [&](unsigned i) {
    shares[i] = std::make_unique<bench::RawStacks>(share);
    for (std::uint64_t s = 0; s < share; ++s) shares[i]->park(s);
  });
  const double bytes = (bench::resident_bytes() - before_bytes) / static_cast<double>(share * threads);
  const double release_ns = on_threads(threads, [&](unsigned i) {
    for (std::uint64_t s = 0; s < share; ++s) shares[i]->resume(s);
  });
  bench::expect(resumed(shares), share * threads);
  return {bytes, make_ns / 1e9, release_ns / 1e9};
}

Figures run_cancel(unsigned threads, std::uint64_t count) {
  const std::uint64_t share = count / threads;
  Shares shares(threads);
  const double ns = bench::measure([&] {
    on_threads(threads, [&](unsigned i) {
      shares[i] = std::make_unique<bench::RawStacks>(share);
      for (std::uint64_t s = 0; s < share; ++s) shares[i]->park(s);
    });
    return on_threads(threads, [&](unsigned i) {
      for (std::uint64_t s = 0; s < share; ++s) {
        if (s + 4 < share) shares[i]->prefetch(s + 4);
        shares[i]->resume(s);
      }
    });
  });
  bench::expect(resumed(shares), share * threads);
  return {ns / 1000};
}
#endif

[[gnu::noinline, gnu::noclone]] std::uint64_t fib(std::uint64_t n) {
  asm volatile("" ::: "memory");  // Keeps the calls: the compiler would unroll the recursion.
  if (n < 2) return n;
  const std::uint64_t b = fib(n - 2);
  return fib(n - 1) + b;
}

Figures run_fib(unsigned threads, std::uint64_t n) {
  std::atomic<std::uint64_t> sum{0};
  const double ns = bench::measure([&] {
    sum = 0;
    return on_threads(threads, [&](unsigned) { sum.fetch_add(fib(n)); });
  });
  bench::expect(sum.load() / threads, bench::fib_value(n));
  return {ns / static_cast<double>(bench::fib_tasks(n) * threads)};
}

[[gnu::noinline, gnu::noclone]] std::uint64_t skynet(std::uint64_t first, std::uint64_t leaves) {
  asm volatile("" ::: "memory");
  if (leaves == 1) return first;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 10; ++i) sum += skynet(first + i * (leaves / 10), leaves / 10);
  return sum;
}

Figures run_skynet(unsigned threads, std::uint64_t leaves) {
  bench::require_power_of_ten(leaves);
  std::atomic<std::uint64_t> sum{0};
  const double ns = bench::measure([&] {
    sum = 0;
    return on_threads(threads, [&](unsigned) { sum.fetch_add(skynet(0, leaves)); });
  });
  bench::expect(sum.load() / threads, bench::skynet_sum(leaves));
  return {ns / 1e6 / threads};
}

struct Record {
  void (*run)(Record*);
  std::uint64_t* ran;
};

Figures run_spawn(unsigned, std::uint64_t count) {
  std::uint64_t ran = 0;
  std::vector<Record> records(count);
  const double ns = bench::measure_ns_each(count, [&] {
    ran = 0;
    for (Record& record : records) record = {[](Record* self) { ++*self->ran; }, &ran};
    asm volatile("" ::: "memory");
    for (Record& record : records) record.run(&record);
  });
  bench::expect(ran, count);
  return {ns};
}

Figures run_channel_cross(unsigned threads, std::uint64_t count) {
  if (threads != 2) bench::fail("two threads; channel is for one");
  alignas(64) std::atomic<std::uint64_t> there{0};
  alignas(64) std::atomic<std::uint64_t> back{0};
  const double ns = bench::measure([&] {
    there = 0;
    back = 0;
    return on_threads(2, [&](unsigned i) {
      for (std::uint64_t n = 1; n <= count; ++n) {
        if (i == 0) there.store(n, std::memory_order_release);
        std::atomic<std::uint64_t>& waited = i == 0 ? back : there;
        while (waited.load(std::memory_order_acquire) != n) bench::spin_pause();
        if (i == 1) back.store(n, std::memory_order_release);
      }
    });
  });
  bench::expect(back.load(), count);
  return {ns / static_cast<double>(count), 1.0};
}

// Children as compressed edges; each node waits for its parents in a 4-byte counter.
struct Counters {
  explicit Counters(const bench::Dag& dag) : first(dag.size + 1), missing(dag.size) {
    for (std::uint32_t i = dag.width; i < dag.size; ++i) {
      for (const std::uint32_t parent : dag.parents[i]) ++first[parent + 1];
    }
    for (std::uint32_t i = 0; i < dag.size; ++i) first[i + 1] += first[i];
    children.resize(first[dag.size]);
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (std::uint32_t i = dag.width; i < dag.size; ++i) {
      for (const std::uint32_t parent : dag.parents[i]) children[next[parent]++] = i;
    }
  }
  std::vector<std::uint32_t> first, children;
  std::vector<std::atomic<std::uint32_t>> missing;
};

Figures run_dag(unsigned threads, std::uint64_t nodes) {
  const bench::Dag dag(nodes);
  Counters counters(dag);
  std::vector<std::uint8_t> layer(dag.size);
  std::atomic<std::uint64_t> ran{0};
  const double ns = bench::measure([&] {
    ran = 0;
    for (auto& missing : counters.missing) missing.store(bench::Dag::kParents, std::memory_order_relaxed);
    SpinBarrier barrier(threads);
    return on_threads(threads, [&](unsigned self) {
      std::vector<std::uint32_t> now, next;
      for (std::uint32_t i = self; i < dag.width; i += threads) now.push_back(i);
      std::uint64_t mine = 0;
      for (std::uint32_t l = 0; l < bench::Dag::kLayers; ++l) {
        next.clear();
        for (std::size_t n = 0; n < now.size(); ++n) {
          if (n + 4 < now.size()) {
            const std::uint32_t soon = now[n + 4];
            for (std::uint32_t e = counters.first[soon]; e < counters.first[soon + 1]; ++e) {
              __builtin_prefetch(&counters.missing[counters.children[e]], 1);
            }
          }
          const std::uint32_t node = now[n];
          layer[node] = static_cast<std::uint8_t>(l);
          ++mine;
          for (std::uint32_t e = counters.first[node]; e < counters.first[node + 1]; ++e) {
            const std::uint32_t child = counters.children[e];
            if (threads == 1) {
              const std::uint32_t left = counters.missing[child].load(std::memory_order_relaxed) - 1;
              counters.missing[child].store(left, std::memory_order_relaxed);
              if (left == 0) next.push_back(child);
            } else if (counters.missing[child].fetch_sub(1, std::memory_order_acq_rel) == 1) {
              next.push_back(child);
            }
          }
        }
        if (threads > 1) barrier.wait();
        now.swap(next);
      }
      ran.fetch_add(mine);
    });
  });
  bench::expect(ran.load(), dag.size);
  return {ns / dag.size, -1};
}

// How late the threads see that the time has come: what the kernel takes to run a sleeper beside busy threads.
Figures run_deadline_busy(unsigned threads, std::uint64_t count) {
  std::vector<std::uint64_t> due_ns(count);
  std::atomic<std::uint64_t> fired{0};
  std::vector<std::vector<double>> late_us(threads);
  std::thread sleeper([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      due_ns[i] = bench::now_ns() + 2'000'000;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      fired.store(i + 1, std::memory_order_release);
    }
  });
  on_threads(threads, [&](unsigned index) {
    for (std::uint64_t i = 0; i < count; ++i) {
      while (fired.load(std::memory_order_acquire) <= i) bench::spin_pause();
      late_us[index].push_back((static_cast<double>(bench::now_ns()) - static_cast<double>(due_ns[i])) / 1e3);
    }
  });
  sleeper.join();
  std::vector<double> all;
  for (const std::vector<double>& mine : late_us) all.insert(all.end(), mine.begin(), mine.end());
  bench::expect(all.size(), count * threads);
  return {bench::percentile(all, 0.5), bench::percentile(all, 0.99)};
}

Figures run_wake_awake(unsigned, std::uint64_t samples) {
  bench::WakeSlot slot;
  alignas(64) std::atomic<std::uint64_t> pushed{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (std::uint64_t seen = 0; !stop.load(std::memory_order_relaxed);) {
      if (pushed.load(std::memory_order_acquire) == seen) {
        bench::spin_pause();
        continue;
      }
      slot.on_start();
      ++seen;
    }
  });
  const Figures figures =
      bench::measure_wake(slot, samples, 0, [&] { pushed.fetch_add(1, std::memory_order_release); });
  stop = true;
  other.join();
  return figures;
}

Figures run_wake_parked(unsigned, std::uint64_t samples) {
  bench::WakeSlot slot;
  std::atomic<std::uint32_t> pushed{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (std::uint32_t seen = 0; !stop.load();) {
      bench::futex_wait(pushed, seen);
      if (pushed.load(std::memory_order_acquire) == seen) continue;
      slot.on_start();
      ++seen;
    }
  });
  const auto push = [&] {
    pushed.fetch_add(1, std::memory_order_release);
    bench::futex_wake_one(pushed);
  };
  const Figures figures = bench::measure_wake(slot, samples, bench::kParkedGapNs, push);
  stop = true;
  push();
  other.join();
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr bench::Work kWorks[] = {
#if BENCH_HAS_SWAP
      {"yield", 10'000'000, run_yield},
      {"channel", 10'000'000, run_channel},
      {"blocked", 1'000'000, run_blocked},
      {"cancel_polling", 10'000, run_cancel},
      {"cancel_blocked", 10'000, run_cancel},
#endif
      {"fib", 35, run_fib},
      {"skynet", 1'000'000, run_skynet},
      {"spawn", 1'000'000, run_spawn},
      {"channel_cross", 1'000'000, run_channel_cross},
      {"dag", 100'000, run_dag},
      {"deadline_busy", 500, run_deadline_busy},
      {"wake_awake", bench::kWakeAwakeSamples, run_wake_awake},
      {"wake_parked", bench::kWakeParkedSamples, run_wake_parked},
  };
  return bench::main_of(argc, argv, kWorks);
}
