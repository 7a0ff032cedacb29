// Commands that stand by (guard_protocol.h): started in the place of one that ends, or when they are told to.
#include <filesystem>

#include "worker/process_testing.h"

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using testing::Folder;
using testing::in_runtime;
using testing::read_text;
using testing::shell;
using testing::Started;

// A command that was handed over and not waited for.
struct Launched {
  CommandPipe pipe = CommandPipe::make().value();
  std::unique_ptr<Process> process;

  Launched(Guard& guard, ProcessSpec spec, std::uint64_t ticket, std::uint64_t cpu_millis = 1000) {
    spec.stand_by = true;
    spec.ticket = ticket;
    spec.demand_cpu_millis = cpu_millis;
    process = Process::launch(guard, spec, {pipe.write_end.fd, pipe.write_end.fd, pipe.write_end.fd}).value();
    pipe.write_end.reset();
  }
  Process* operator->() { return process.get(); }
};

// One that ends when it is told to.
Started until_told(Guard& guard) {
  ProcessSpec spec = shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
  spec.demand_cpu_millis = 1000;
  Started started(guard, spec);
  EXPECT_EQ(started.line(), "up");
  return started;
}

// Contract: U-3. It begins when another ends, no earlier, in the order of arrival; the end of the one names the other.
TEST(StandBy, HasThePlaceOfOneThatEnds) {
  in_runtime([] {
    const Folder folder;
    Guard guard(1);
    Started first = until_told(guard);
    Launched second(guard, shell("echo 2 >> " + folder / "ran"), 7);
    Launched third(guard, shell("echo 3 >> " + folder / "ran"), 8);
    // The guard does things in order: when this one has run, those before it were looked at.
    Started other(guard, shell("true"));
    EXPECT_EQ(other->wait().value().next, 0U) << "its demand is less than theirs";
    EXPECT_FALSE(std::filesystem::exists(folder / "ran"));
    first->terminate(1h);
    EXPECT_EQ(first->wait().value().next, 7U);
    const Outcome ended = second->wait().value();
    EXPECT_TRUE(ended.success());
    EXPECT_EQ(ended.next, 8U);
    EXPECT_EQ(third->wait().value().next, 0U);
    EXPECT_EQ(read_text(folder / "ran"), "2\n3\n");
  });
}

// Contract: U-3. One that needs more than what has become free waits until it is told to go.
TEST(StandBy, GoesWhenItIsTold) {
  in_runtime([] {
    Guard guard(1);
    Started first = until_told(guard);
    Launched wide(guard, shell("exit 5"), 7, 2000);
    first->terminate(1h);
    EXPECT_EQ(first->wait().value().next, 0U);
    wide->go();
    wide->go();
    EXPECT_EQ(wide->wait().value().code, 5);
  });
}

// Contract: U-3. Told to end before it began, it never begins; nor does one whose owner has gone.
TEST(StandBy, EndsBeforeItBegins) {
  in_runtime([] {
    const Folder folder;
    Guard guard(1);
    Started first = until_told(guard);
    Launched second(guard, shell("touch " + folder / "second"), 7);
    {
      const Launched third(guard, shell("touch " + folder / "third"), 8);
    }
    second->terminate(1h);
    const Result<Outcome> ended = second->wait();
    EXPECT_EQ(ended.code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(ended.error().message, "could not start: it was told to end before it began");
    Started barrier(guard, shell("true"));
    EXPECT_TRUE(barrier->wait().value().success());
    first->terminate(1h);
    EXPECT_EQ(first->wait().value().next, 0U);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  });
}

// Contract: U-3. Paused before it began, it begins stopped; and what cannot start says so although nobody waited.
TEST(StandBy, PausedAndImpossible) {
  in_runtime([] {
    Guard guard(1);
    Started first = until_told(guard);
    Launched second(guard, shell("exit 3"), 7);
    ProcessSpec missing = shell("");
    missing.arguments = {"/no/such/program"};
    Launched third(guard, missing, 8);
    second->pause();
    first->terminate(1h);
    EXPECT_EQ(first->wait().value().next, 7U);
    second->resume();
    const Outcome ended = second->wait().value();
    EXPECT_EQ(ended.code, 3);
    EXPECT_EQ(ended.next, 8U);
    EXPECT_EQ(third->wait().code(), ErrorCode::kNotFound);
  });
}

}  // namespace
}  // namespace rota::worker
