// The C interface as C++ sees it: exceptions, threads, handles that are abused. janus_test.c uses all of it from C.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "base/source_dir.h"
#include "rota/error_code.h"
#include "rota/fiber.h"
#include "rota/janus.h"

namespace rota::fiber {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(kSourceDir) + "/" + file);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string last_error() {
  std::string text(janus_last_error(nullptr, 0), '\0');
  janus_last_error(text.data(), text.size() + 1);
  return text;
}

void* function(JanusFunction f) { return reinterpret_cast<void*>(f); }

// A scheduler for a test; its functions are closures, run through a pointer to one.
class JanusTest : public ::testing::Test {
 protected:
  void* start(std::size_t workers, JanusProfile profile = JANUS_PROFILE_OPEN) {
    JanusSchedulerConfig config = janus_scheduler_config_default();
    config.worker_count = workers;
    config.profile = profile;
    scheduler_ = janus_scheduler_create(config);
    EXPECT_NE(scheduler_, nullptr) << last_error();
    return scheduler_;
  }
  static void* call(void* closure) {
    (*static_cast<std::function<void()>*>(closure))();
    return nullptr;
  }
  int run(std::function<void()> f) { return janus_scheduler_run(scheduler_, function(call), &f, nullptr); }
  void TearDown() override {
    if (scheduler_ != nullptr) janus_scheduler_shutdown(scheduler_);
  }
  void* scheduler_ = nullptr;
};

// Contract: F-30. The C program in the tests uses every function that the header declares.
TEST_F(JanusTest, TheCProgramUsesEverything) {
  const std::string header = text_of("include/rota/janus.h");
  const std::string program = text_of("src/fiber/janus_test.c");
  const std::regex declaration("^[a-zA-Z_][\\w* ]*[ *](janus_\\w+)\\(", std::regex::multiline);
  std::set<std::string> functions;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it)
    functions.insert((*it)[1]);
  EXPECT_GT(functions.size(), 40U);
  for (const std::string& name : functions) {
    EXPECT_NE(program.find(name + "("), std::string::npos) << name << " is not used in janus_test.c";
  }
  for (const char* name :
       {"janus_scheduler_create", "janus_scheduler_shutdown", "janus_scheduler_spawn", "janus_scheduler_yield",
        "janus_budget_get_current", "janus_budget_recharge", "janus_op_budget_check", "janus_op_budget_decrement",
        "janus_op_yield", "janus_op_task_create", "janus_op_task_join"}) {
    EXPECT_TRUE(functions.contains(name)) << name;
  }
}

// Contract: F-30, F-16. The header's codes are those of the one table.
TEST_F(JanusTest, CodesAreTheTables) {
  const std::string header = text_of("include/rota/janus.h");
  const std::string codes = header.substr(header.find("enum {"), header.find("};") - header.find("enum {"));
  const std::regex row("JANUS_(\\w+) = (\\d+)");
  int count = 0;
  for (std::sregex_iterator it(codes.begin(), codes.end(), row), end; it != end; ++it, ++count) {
    std::string name = janus_error_name(std::stoi((*it)[2]));
    std::string upper;
    for (const char c : name) {
      if (std::isupper(static_cast<unsigned char>(c)) != 0 && !upper.empty()) upper += '_';
      upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    EXPECT_EQ(upper, (*it)[1].str());
  }
  EXPECT_GT(count, 20);
}

// Contract: F-30. An exception of a C++ function becomes a code, for the joiner and for the nursery.
TEST_F(JanusTest, ExceptionsBecomeCodes) {
  start(2);
  EXPECT_EQ(run([] { throw std::runtime_error("boom"); }), JANUS_INTERNAL);
  EXPECT_NE(last_error().find("boom"), std::string::npos) << last_error();
  EXPECT_EQ(run([] { throw FiberError(Error{ErrorCode::kNoSpace, "full"}); }), 22);
  EXPECT_EQ(run([] { throw 7; }), JANUS_INTERNAL);
  EXPECT_EQ(run([] {
              JanusNursery nursery = 0;
              ASSERT_EQ(janus_nursery_open(nullptr, &nursery), JANUS_OK);
              std::function<void()> bad = [] { throw std::runtime_error("boom"); };
              EXPECT_EQ(janus_nursery_spawn(nursery, function(call), &bad, nullptr, nullptr), JANUS_OK);
              EXPECT_EQ(janus_nursery_close(nursery), JANUS_INTERNAL);
            }),
            JANUS_OK);
  // One that throws with its nursery open: that is closed first.
  JanusNursery left = 0;
  EXPECT_EQ(run([&left] {
              ASSERT_EQ(janus_nursery_open(nullptr, &left), JANUS_OK);
              throw std::runtime_error("boom");
            }),
            JANUS_INTERNAL);
  EXPECT_EQ(run([&left] { EXPECT_EQ(janus_nursery_close(left), JANUS_NOT_FOUND); }), JANUS_OK);
}

// Contract: F-30. The last error is the task's, wherever it runs by the time it asks; also for tasks of C++.
TEST_F(JanusTest, TheLastErrorFollowsItsTask) {
  start(8);
  const auto errs = [](int id) {
    for (int round = 0; round < 50; ++round) {
      if (id % 2 == 0) {
        EXPECT_EQ(janus_sleep(-1), JANUS_INVALID_ARGUMENT);
      } else {
        EXPECT_EQ(janus_channel_close(0), JANUS_NOT_FOUND);
      }
      for (int i = 0; i < id % 5; ++i) janus_scheduler_yield();
      EXPECT_NE(last_error().find(id % 2 == 0 ? "sleep" : "stale"), std::string::npos) << last_error();
    }
  };
  std::vector<std::function<void()>> bodies;
  for (int id = 0; id < 20; ++id) bodies.emplace_back([id, &errs] { errs(id); });
  EXPECT_EQ(run([&bodies] {
              JanusNursery nursery = 0;
              ASSERT_EQ(janus_nursery_open(nullptr, &nursery), JANUS_OK);
              for (auto& body : bodies) {
                EXPECT_EQ(janus_nursery_spawn(nursery, function(call), &body, nullptr, nullptr), JANUS_OK);
              }
              EXPECT_EQ(janus_nursery_close(nursery), JANUS_OK);
            }),
            JANUS_OK);
  Runtime runtime({.worker_count = 4});
  runtime.run([&errs] {
    with_scope([&errs](Nursery& nursery) {
      for (int id = 0; id < 20; ++id) nursery.launch([id, &errs] { errs(id); });
    });
  });
}

// Contract: F-30. No number that was not given out is taken for a handle, nor one that was given back.
TEST_F(JanusTest, NoHandleIsGuessed) {
  Prng random(7);
  std::vector<std::uint64_t> dead;
  for (int i = 0; i < 100; ++i) {
    JanusToken token = 0;
    ASSERT_EQ(janus_token_create(&token), JANUS_OK);
    dead.push_back(token);
    ASSERT_EQ(janus_token_release(token), JANUS_OK);
  }
  JanusToken alive = 0;
  ASSERT_EQ(janus_token_create(&alive), JANUS_OK);
  for (const std::uint64_t handle : dead) {
    EXPECT_NE(handle, alive);
    EXPECT_EQ(janus_token_cancel(handle), JANUS_NOT_FOUND);
  }
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t guess = i % 2 == 0 ? random.next() : alive ^ (std::uint64_t{1} << (random.next() % 64));
    ASSERT_EQ(janus_token_cancel(guess), guess == alive ? JANUS_OK : JANUS_NOT_FOUND) << guess;
  }
  EXPECT_EQ(janus_token_release(alive), JANUS_OK);
}

// Contract: F-30. What a handle is comes before where it is used: a stale nursery is not found, in a task and outside;
// one that is open can be used only by tasks.
TEST_F(JanusTest, AStaleNurseryIsNotFoundAnywhere) {
  start(2);
  static JanusNursery open;
  static JanusNursery stale;
  const auto use = [](JanusNursery nursery, int code) {
    JanusTask task = 0;
    EXPECT_EQ(janus_nursery_spawn(nursery, function([](void* a) { return a; }), nullptr, nullptr, &task), code);
    EXPECT_EQ(janus_nursery_cancel(nursery), code);
    EXPECT_EQ(janus_nursery_recharge(nursery, 0, JanusBudget{}), code);
    EXPECT_EQ(janus_nursery_close(nursery), code);
  };
  run([&] {
    EXPECT_EQ(janus_nursery_open(nullptr, &stale), JANUS_OK);
    EXPECT_EQ(janus_nursery_close(stale), JANUS_OK);
    use(stale, JANUS_NOT_FOUND);
    EXPECT_EQ(janus_nursery_open(nullptr, &open), JANUS_OK);
    std::thread([&] {
      use(stale, JANUS_NOT_FOUND);
      use(0, JANUS_NOT_FOUND);
      use(open, JANUS_OUTSIDE_RUNTIME);
    }).join();
    EXPECT_EQ(janus_nursery_close(open), JANUS_OK);
  });
}

// Contract: F-30. A configuration means what it says: a flag is 0 or 1.
TEST_F(JanusTest, FlagsAreZeroOrOne) {
  for (int JanusSchedulerConfig::* flag :
       {&JanusSchedulerConfig::enable_stealing, &JanusSchedulerConfig::deterministic}) {
    for (const int value : {-1, 0, 1, 2, 7}) {
      JanusSchedulerConfig config = janus_scheduler_config_default();
      config.worker_count = 1;
      config.*flag = value;
      void* made = janus_scheduler_create(config);
      EXPECT_EQ(made != nullptr, value == 0 || value == 1) << value;
      if (made == nullptr) {
        EXPECT_NE(last_error().find("neither 0 nor 1"), std::string::npos) << last_error();
      }
      janus_scheduler_shutdown(made);
    }
  }
  EXPECT_EQ(janus_sleep(-5), JANUS_INVALID_ARGUMENT);
  EXPECT_EQ(janus_sleep(JANUS_FOREVER), JANUS_INVALID_ARGUMENT);
}

// Contract: F-30. Handles are made, used and given back by many threads at once; a join, a cancel and a release of the
// same task race, and each gets a sensible answer.
TEST_F(JanusTest, HandlesAreShared) {
  start(4);
  std::vector<std::thread> threads;
  std::atomic<int> joined{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &joined] {
      for (int i = 0; i < 200; ++i) {
        JanusTask task = 0;
        const JanusFunction doubled = [](void* n) -> void* {
          return reinterpret_cast<void*>(2 * reinterpret_cast<intptr_t>(n));
        };
        ASSERT_EQ(janus_scheduler_spawn_on(scheduler_, function(doubled), reinterpret_cast<void*>(intptr_t{i}), &task),
                  JANUS_OK);
        std::thread other([task] {
          const int code = janus_task_cancel(task);
          EXPECT_TRUE(code == JANUS_OK || code == JANUS_NOT_FOUND);
        });
        void* result = nullptr;
        const int code = janus_task_join(task, &result, nullptr);
        EXPECT_TRUE(code == JANUS_OK || code == JANUS_CANCELLED) << code;
        if (code == JANUS_OK) {
          EXPECT_EQ(reinterpret_cast<intptr_t>(result), 2 * i);
        }
        other.join();
        ++joined;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(joined, 800);
}

// Contract: F-30. Two who wait for the same task: one is told.
TEST_F(JanusTest, OneWaitsAtATime) {
  start(1);
  JanusTask task = 0;
  std::atomic<bool> stop{false};
  std::function<void()> body = [&stop] {
    while (!stop) janus_scheduler_yield();
  };
  ASSERT_EQ(janus_scheduler_spawn_on(scheduler_, function(call), &body, &task), JANUS_OK);
  std::thread first([task] {
    int code = JANUS_CONFLICT;
    while (code == JANUS_CONFLICT) code = janus_task_join(task, nullptr, nullptr);  // The other may be there just now.
    EXPECT_EQ(code, JANUS_OK);
  });
  std::function<int()> again = [task] {
    int joined = 1;
    const int code = janus_task_join(task, nullptr, &joined);
    EXPECT_EQ(joined, 0);
    return code;
  };
  // Until the first one is there this would wait: ask from a task that is cancelled, which cannot.
  int code = JANUS_CANCELLED;
  while (code == JANUS_CANCELLED) {
    EXPECT_EQ(run([&] {
                JanusNurseryOptions late{nullptr, nullptr, JANUS_EXHAUSTED_DEFAULT, 0};
                JanusNursery nursery = 0;
                ASSERT_EQ(janus_nursery_open(&late, &nursery), JANUS_OK);
                code = again();
                janus_nursery_close(nursery);
              }),
              JANUS_OK);
  }
  EXPECT_EQ(code, JANUS_CONFLICT);
  stop = true;
  first.join();
}

// NOLINTNEXTLINE(misc-no-recursion)
[[gnu::noinline]] int dive(volatile char* above) {
  volatile char here[300];
  here[0] = above[0];
  if (above == nullptr) return 0;
  return dive(here) + here[0];
}

// Contract: F-23, F-30. A stack that overflows with a nursery open: its tasks are cancelled and waited for.
TEST_F(JanusTest, OverflowWithANurseryOpen) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
  GTEST_SKIP() << "an overflow is not survived here";
#endif
  start(2);
  std::atomic<int> ended{0};
  std::function<void()> child = [&ended] {
    while (janus_scheduler_yield() == JANUS_OK) {
    }
    ++ended;
  };
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(run([&child] {
                JanusNursery nursery = 0;
                ASSERT_EQ(janus_nursery_open(nullptr, &nursery), JANUS_OK);
                ASSERT_EQ(janus_nursery_spawn(nursery, function(call), &child, nullptr, nullptr), JANUS_OK);
                janus_scheduler_yield();
                volatile char surface = 1;
                dive(&surface);
              }),
              JANUS_STACK_OVERFLOW);
  }
  EXPECT_LE(ended, 20);  // One that never ran was cancelled in its queue.
  EXPECT_EQ(run([] {}), JANUS_OK);
}

// Contract: F-4, F-30. A nursery is for the task that opened it and those below, whatever others know its handle.
TEST_F(JanusTest, ANurseryIsNotForStrangers) {
  start(2);
  JanusNursery nursery = 0;
  std::atomic<bool> open{false};
  std::atomic<bool> stop{false};
  std::function<void()> owner = [&] {
    ASSERT_EQ(janus_nursery_open(nullptr, &nursery), JANUS_OK);
    open = true;
    while (!stop) janus_scheduler_yield();
    EXPECT_EQ(janus_nursery_close(nursery), JANUS_OK);
  };
  JanusTask task = 0;
  ASSERT_EQ(janus_scheduler_spawn_on(scheduler_, function(call), &owner, &task), JANUS_OK);
  while (!open) std::this_thread::yield();
  EXPECT_EQ(run([&] {
              EXPECT_EQ(janus_nursery_spawn(nursery, function(call), nullptr, nullptr, nullptr),
                        JANUS_FAILED_PRECONDITION);
              EXPECT_EQ(janus_nursery_cancel(nursery), JANUS_FAILED_PRECONDITION);
              EXPECT_EQ(janus_nursery_close(nursery), JANUS_FAILED_PRECONDITION);
            }),
            JANUS_OK);
  EXPECT_EQ(janus_nursery_cancel(nursery), JANUS_OUTSIDE_RUNTIME);
  stop = true;
  EXPECT_EQ(janus_task_join(task, nullptr, nullptr), JANUS_OK);
}

// Contract: F-15, F-30. Profiles refuse with their own codes.
TEST_F(JanusTest, ProfilesRefuse) {
  start(1, JANUS_PROFILE_CORE);
  EXPECT_EQ(run([] {
              JanusNursery nursery = 0;
              EXPECT_EQ(janus_nursery_open(nullptr, &nursery), JANUS_NURSERY_NOT_ACTIVE);
              EXPECT_EQ(nursery, 0U);
            }),
            JANUS_OK);
}

}  // namespace
}  // namespace rota::fiber
