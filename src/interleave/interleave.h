// The interleaving checker: runs a small concurrent test again and again, each time with another interleaving and
// other values that the C++20 memory model allows the loads to return, until all are tried or one fails.
//
//   auto r = interleave::check({.name = "message passing"}, [](interleave::Execution& ex) {
//     sync::Plain<int> data{0};                // shared state is made afresh in each execution
//     sync::Atomic<int> ready{0};
//     ex.run([&] { data = 42; ready.store(1, std::memory_order_release); },
//            [&] { if (ready.load(std::memory_order_acquire)) ROTA_INTERLEAVE_ASSERT(data.get() == 42); });
//     ROTA_INTERLEAVE_ASSERT(ready.load() == 1);   // all threads have ended here
//   });
//   EXPECT_TRUE(r.ok) << r.report;
//
// The body must do the same thing whenever it gets the same answers: no clock, no random numbers, no addresses as
// keys, nothing kept from one execution to the next (collecting outcomes in a set outside is fine).
// Found: failed assertions, data races on Plain, deadlocks and lost wake-ups, livelocks, exceptions, use of
// destroyed objects, leaked or wrongly released locks. README.md says what is explored and what is not.
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
  // -1: no bound. The search leaves out equivalent executions, so this is also the cheapest for small tests. With a
  // bound nothing equivalent is left out, but far fewer executions exist; for tests that are too big otherwise.
  int preemption_bound = -1;
  std::uint64_t max_executions = 2'000'000;
  std::uint64_t seed = 1;
  int pct_depth = 3;
  // More operations than that in one execution are called a livelock.
  std::uint32_t max_steps = 5'000;
  // How many rounds of a loop with cpu_pause() a thread may make, while others could run, without seeing anything
  // new. A loop that gives up after n rounds needs free_spins >= n to be explored fully; the report says when not.
  int free_spins = 1;
  // Each thread may fail so many weak compare-exchanges, and return from so many waits, for no reason.
  int spurious = 0;
  // So many timed waits of each thread may run out at any moment; the others only when nothing else can happen.
  int timeouts = 1;
  // Run only this path (from a report). Also: environment variable ROTA_INTERLEAVE_REPLAY=name:path.
  std::string replay = {};
  // Off: try equivalent executions too. To check the checker.
  bool reduction = true;
};

enum class Failure {
  kNone,
  kAssertion,  // Also exceptions that leave a thread.
  kDataRace,
  kDeadlock,  // All threads wait; with a waiter on a futex or condition that is a lost wake-up.
  kLivelock,
  kMisuse,  // Destroyed objects, wrong locks, a checker that is used wrongly.
  kLimit,   // The test is too big for the checker.
};

struct Result {
  bool ok = false;
  Failure failure = Failure::kNone;
  // The search ended because everything within the bound has been tried (and nothing was cut short).
  bool exhaustive = false;
  std::uint64_t executions = 0;  // Including redundant ones, which turned out to be repetitions half-way.
  std::uint64_t redundant = 0;
  std::uint32_t longest_steps = 0;
  double seconds = 0;
  std::string path;    // Of the failed execution.
  std::string report;  // One line if ok, else what went wrong with a trace and how to replay it.
};

class Execution {
 public:
  // Runs the callables as threads T1, T2, ... and returns when all have ended. What came before happens before
  // them, and they happen before what follows.
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

// Fails the execution that the caller is part of.
[[noreturn]] void fail_assertion(const char* what, const char* file, int line);

}  // namespace rota::interleave

#define ROTA_INTERLEAVE_ASSERT(condition)                                                 \
  do {                                                                                    \
    if (!(condition)) ::rota::interleave::fail_assertion(#condition, __FILE__, __LINE__); \
  } while (false)
