// Boost.Fiber's part of the table.
//
// One thread uses the default round robin and pooled stacks; more use work_stealing, and malloc's stacks because the
// pool is not thread-safe. New fibers are launched with `dispatch` (they run at once, the parent waits in the queue):
// with `post` a million of them, each with its stack, would pile up before the first one runs. The library has no
// cancellation, hence no cancel work; a push wakes no thread that sleeps, hence no wake_parked; it has no graph.
#include <array>
#include <atomic>
#include <boost/fiber/all.hpp>
#include <cstdint>
#include <memory>
#include <thread>

#include "common/bench.h"
#include "common/wake.h"

namespace {

namespace fibers = boost::fibers;
using bench::Figures;
using bench::now_ns;

constexpr std::size_t kStackBytes = 16 * 1024;

// `count` threads that exchange fibers; this one is the first. `use_algorithm` is called on each. Idle ones look for
// work all the time.
class Threads {
 public:
  template <typename UseAlgorithm>
  Threads(unsigned count, const UseAlgorithm& use_algorithm) : ready_(count) {
    if (count == 1) return;
    for (unsigned i = 1; i < count; ++i) {
      others_.emplace_back([this, use_algorithm] {
        use_algorithm();
        ready_.wait();
        std::unique_lock lock(mutex_);
        stop_.wait(lock, [this] { return stopping_; });
      });
    }
    use_algorithm();
    ready_.wait();
  }
  ~Threads() {
    {
      const std::unique_lock lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    for (std::thread& thread : others_) thread.join();
  }

 private:
  fibers::barrier ready_;
  fibers::mutex mutex_;
  fibers::condition_variable stop_;
  bool stopping_ = false;
  std::vector<std::thread> others_;
};

// Calls `body(stacks)` on `threads` threads with the stack allocator that suits them.
template <typename Body>
Figures with_threads(unsigned threads, const Body& body) {
  const Threads running(threads, [threads] { fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(threads); });
  if (threads == 1) {
    fibers::pooled_fixedsize_stack stacks(kStackBytes);
    return body(stacks);
  }
  fibers::fixedsize_stack stacks(kStackBytes);
  return body(stacks);
}

template <typename Stacks, typename Function>
fibers::fiber launch(Stacks& stacks, Function&& function) {
  return fibers::fiber(fibers::launch::dispatch, std::allocator_arg, stacks, std::forward<Function>(function));
}

// Two fibers a thread take turns. A fiber stays on the thread that it was launched on.
Figures run_yield(unsigned threads, std::uint64_t count) {
  double ns = 0;
  const auto alternate = [count](std::atomic<unsigned>& arrived, unsigned expected,
                                 std::atomic<std::uint64_t>& yields) {
    const auto body = [&] {
      for (std::uint64_t i = 0; i < count; ++i) boost::this_fiber::yield();
      yields.fetch_add(count);
    };
    arrived.fetch_add(1);
    while (arrived.load() < expected) bench::spin_pause();
    fibers::fiber first(fibers::launch::post, body), second(fibers::launch::post, body);
    first.join();
    second.join();
  };
  std::atomic<std::uint64_t> yields{0};
  ns = bench::measure([&] {
    std::atomic<unsigned> arrived{0};
    yields = 0;
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back([&] { alternate(arrived, threads, yields); });
    while (arrived.load() < threads - 1) bench::spin_pause();
    const std::uint64_t start = now_ns();
    alternate(arrived, threads, yields);
    for (std::thread& other : others) other.join();
    return static_cast<double>(now_ns() - start) / static_cast<double>(2 * count);
  });
  bench::expect(yields.load(), 2 * count * threads);
  return {ns};
}

template <typename Stacks>
std::uint64_t fib(Stacks& stacks, std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  fibers::fiber child = launch(stacks, [&] { a = fib(stacks, n - 1); });
  const std::uint64_t b = fib(stacks, n - 2);
  child.join();
  return a + b;
}

Figures run_fib(unsigned threads, std::uint64_t n) {
  return with_threads(threads, [&](auto& stacks) -> Figures {
    std::uint64_t value = 0;
    const double ns = bench::measure_ns_each(bench::fib_tasks(n), [&] { value = fib(stacks, n); });
    bench::expect(value, bench::fib_value(n));
    return {ns};
  });
}

Figures run_spawn(unsigned threads, std::uint64_t count) {
  return with_threads(threads, [&](auto& stacks) -> Figures {
    std::vector<fibers::fiber> tasks(count);
    const double ns = bench::measure_ns_each(count, [&] {
      for (fibers::fiber& task : tasks) task = launch(stacks, [] {});
      for (fibers::fiber& task : tasks) task.join();
    });
    std::atomic<std::uint64_t> ran{0};
    for (fibers::fiber& task : tasks) task = launch(stacks, [&] { ran.fetch_add(1, std::memory_order_relaxed); });
    for (fibers::fiber& task : tasks) task.join();
    bench::expect(ran.load(), count);
    return {ns};
  });
}

template <typename Stacks>
std::uint64_t skynet(Stacks& stacks, std::uint64_t first, std::uint64_t leaves) {
  if (leaves == 1) return first;
  std::array<std::uint64_t, 10> sums;
  std::array<fibers::fiber, 10> children;
  for (std::uint64_t i = 0; i < 10; ++i) {
    children[i] = launch(stacks, [&stacks, &sums, i, first, leaves] {
      sums[i] = skynet(stacks, first + i * (leaves / 10), leaves / 10);
    });
  }
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    children[i].join();
    sum += sums[i];
  }
  return sum;
}

Figures run_skynet(unsigned threads, std::uint64_t leaves) {
  bench::require_power_of_ten(leaves);
  return with_threads(threads, [&](auto& stacks) -> Figures {
    std::uint64_t sum = 0;
    const double ms = bench::measure_ns_each(1'000'000, [&] { sum = skynet(stacks, 0, leaves); });
    bench::expect(sum, bench::skynet_sum(leaves));
    return {ms};
  });
}

using Channel = fibers::buffered_channel<std::uint64_t>;

void echo(Channel& in, Channel& out, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) out.push(in.value_pop());
}
std::uint64_t ping(Channel& out, Channel& in, std::uint64_t count) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    out.push(1);
    sum += in.value_pop();
  }
  return sum;
}

Figures run_channel(unsigned threads, std::uint64_t count) {
  if (threads != 1) bench::fail("one thread; channel_cross is for two");
  std::uint64_t sum = 0;
  const double ns = bench::measure_ns_each(count, [&] {
    Channel there(2), back(2);
    fibers::fiber other([&] { echo(there, back, count); });
    fibers::fiber self([&] { sum = ping(there, back, count); });
    self.join();
    other.join();
  });
  bench::expect(sum, count);
  return {ns};
}

// One fiber on each of two threads, which never exchange fibers: each message crosses. Idle threads sleep.
Figures run_channel_cross(unsigned threads, std::uint64_t count) {
  if (threads != 2) bench::fail("two threads; channel is for one");
  std::uint64_t sum = 0;
  const double ns = bench::measure_ns_each(count, [&] {
    Channel there(2), back(2);
    std::thread other([&] { echo(there, back, count); });
    sum = ping(there, back, count);
    other.join();
  });
  bench::expect(sum, count);
  return {ns, 1.0};
}

Figures run_blocked(unsigned threads, std::uint64_t count) {
  return with_threads(threads, [&](auto&) -> Figures {
    fibers::mutex mutex;
    fibers::condition_variable gate;
    bool open = false;
    std::atomic<std::uint64_t> started{0}, passed{0};
    std::vector<fibers::fiber> tasks;
    tasks.reserve(count);
    // 8 KiB, the least that the library accepts, overflows in its own wait; a pool would write a link into each stack's
    // far end, malloc does not.
    fibers::fixedsize_stack stacks(16 * 1024);
    const double before_bytes = bench::resident_bytes();
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < count; ++i) {
      tasks.push_back(launch(stacks, [&] {
        std::unique_lock lock(mutex);
        started.fetch_add(1, std::memory_order_relaxed);
        while (!open) gate.wait(lock);
        passed.fetch_add(1, std::memory_order_relaxed);
      }));
    }
    while (started.load() < count) boost::this_fiber::yield();
    const std::uint64_t made = now_ns();
    const double bytes = (bench::resident_bytes() - before_bytes) / static_cast<double>(count);
    const std::uint64_t release = now_ns();
    {
      const std::unique_lock lock(mutex);
      open = true;
    }
    gate.notify_all();
    for (fibers::fiber& task : tasks) task.join();
    const std::uint64_t joined = now_ns();
    bench::expect(passed.load(), count);
    return {bytes, static_cast<double>(made - start) / 1e9, static_cast<double>(joined - release) / 1e9};
  });
}

// shared_work here: from a thread whose fiber does not yield work_stealing steals nothing, because the thread's own
// dispatcher heads its queue and is pinned.
Figures run_wake_awake(unsigned threads, std::uint64_t samples) {
  if (threads < 2) bench::fail("a wake-up needs two threads");
  const Threads running(threads, [] { fibers::use_scheduling_algorithm<fibers::algo::shared_work>(); });
  fibers::fixedsize_stack stacks(kStackBytes);
  bench::WakeSlot slot;
  return bench::measure_wake(slot, samples, 0, [&] {
    fibers::fiber(fibers::launch::post, std::allocator_arg, stacks, [&] { slot.on_start(); }).detach();
  });
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr bench::Work kWorks[] = {
      {"yield", 2'000'000, run_yield},     {"fib", 25, run_fib},
      {"spawn", 100'000, run_spawn},       {"skynet", 1'000'000, run_skynet},
      {"channel", 500'000, run_channel},   {"channel_cross", 5'000, run_channel_cross},
      {"blocked", 1'000'000, run_blocked}, {"wake_awake", 5'000, run_wake_awake},
  };
  return bench::main_of(argc, argv, kWorks);
}
