// The interleaving checker: runs a small concurrent test many times, each time with another interleaving and other
// values that the C++20 memory model allows the loads to return, until all executions were tried or one fails.
//
//   auto r = interleave::check({.name = "message passing"}, [](interleave::Execution& ex) {
//     sync::Plain<int> data{0};                // shared state is created in each execution
//     sync::Atomic<int> ready{0};
//     ex.run([&] { data = 42; ready.store(1, std::memory_order_release); },
//            [&] { if (ready.load(std::memory_order_acquire)) ROTA_INTERLEAVE_ASSERT(data.get() == 42); });
//     ROTA_INTERLEAVE_ASSERT(ready.load() == 1);   // all threads have ended here
//   });
//   EXPECT_TRUE(r.ok) << r.report;
//
// The body must behave identically whenever its operations return the same values: no clock, no random numbers, no
// addresses as keys, no state kept between executions (collecting outcomes in an outside set is fine).
// It finds failed assertions, data races on Plain, deadlocks and lost wake-ups, livelocks, exceptions, use of destroyed
// objects, leaked or wrongly released locks. README.md says what is explored and what is not.
// Thread safety: none; one check at a time in a process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

namespace rota::interleave {

enum class Mode {
  kExhaustive,  // Every execution, within preemption_bound if that is set.
  kRandom,      // max_executions random walks from `seed`.
  kPct,         // The same with random priorities and pct_depth - 1 changes of them.
};

struct Options {
  std::string name = "test";  // For the report and for replays.
  Mode mode = Mode::kExhaustive;
  // -1: no bound. The search skips equivalent executions, so this is also the cheapest mode for small tests. With a
  // bound no equivalent execution is skipped, but far fewer exist; for tests that are otherwise too big.
  int preemption_bound = -1;
  std::uint64_t max_executions = 2'000'000;
  std::uint64_t seed = 1;
  int pct_depth = 3;
  // An execution with more operations is reported as a livelock.
  std::uint32_t max_steps = 5'000;
  // How many rounds of a loop with cpu_pause() a thread may make, while others could run, without seeing a new value. A
  // loop that gives up after n rounds needs free_spins >= n to be explored fully; the report says if it was not.
  int free_spins = 1;
  // How many weak compare-exchanges of each thread may fail, and how many waits may return, spuriously.
  int spurious = 0;
  // How many timed waits of each thread may time out at any moment; further ones only when nothing else can happen.
  int timeouts = 1;
  // Run only this path (from a report). Also: environment variable ROTA_INTERLEAVE_REPLAY=name:path.
  std::string replay = {};
  // Off: equivalent executions are tried, too. For testing the checker.
  bool reduction = true;
};

enum class Failure {
  kNone,
  kAssertion,  // Also exceptions that leave a thread.
  kDataRace,
  kDeadlock,  // All threads wait; if one waits on a futex or condition, a wake-up was lost.
  kLivelock,
  kMisuse,  // Destroyed objects, wrong locks, wrong use of the checker.
  kLimit,   // The test is too big for the checker.
};

struct Result {
  bool ok = false;
  Failure failure = Failure::kNone;
  // The search ended because everything within the bound was tried (and nothing was cut short).
  bool exhaustive = false;
  std::uint64_t executions = 0;  // Including redundant ones, which were recognised as repetitions half-way.
  std::uint64_t redundant = 0;
  std::uint32_t longest_steps = 0;
  double seconds = 0;
  std::string path;    // The path of the failed execution.
  std::string report;  // One line if ok; otherwise the failure with a trace and how to replay it.
};

class Execution {
 public:
  // Runs the callables as threads T1, T2, ... and returns when all have ended. Everything before this call happens
  // before them, and they happen before everything after it.
  template <class... Bodies>
  void run(Bodies&&... bodies) {
    const Body list[] = {Body{&invoke<std::remove_reference_t<Bodies>>, const_cast<void*>(address(bodies))}...};
    run_all(list, sizeof...(bodies));
  }
  // Names an object in traces; `name` must live as long as the check.
  template <class T>
  void name(const T& object, const char* text) {
    name_object(&object, text);
  }

 private:
  struct Body {
    void (*call)(void*);
    void* target;
  };
  template <class F>
  static void invoke(void* target) {
    (*static_cast<F*>(target))();
  }
  template <class F>
  static const void* address(F& body) {
    return static_cast<const void*>(&body);
  }
  static void run_all(const Body* bodies, std::size_t count);
  static void name_object(const void* object, const char* text);
};

Result check(const Options& options, const std::function<void(Execution&)>& body);

// Fails the current execution.
[[noreturn]] void fail_assertion(const char* what, const char* file, int line);

}  // namespace rota::interleave

#define ROTA_INTERLEAVE_ASSERT(condition)                                                 \
  do {                                                                                    \
    if (!(condition)) ::rota::interleave::fail_assertion(#condition, __FILE__, __LINE__); \
  } while (false)
