// Programs that stand by (guard_protocol.h): started in the place of one that ends, or when they are told to.
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

model::AttemptId id_of(std::uint64_t task) { return {model::TaskId(task), model::AttemptNumber(3)}; }

// A program that stands by.
struct Launched {
  ProgramPipe pipe = ProgramPipe::make().value();
  std::unique_ptr<Process> process;

  Launched(GuardPool& guards, ProcessSpec spec, std::uint64_t task, std::int64_t cpu_millis = 1000) {
    spec.stand_by = true;
    spec.id = id_of(task);
    spec.held.cpu_millis = cpu_millis;
    process = Process::launch(guards, spec, {pipe.write_end.fd, pipe.write_end.fd, pipe.write_end.fd}).value();
    pipe.write_end.reset();
  }
  Process* operator->() { return process.get(); }
};

// A program that ends when it is terminated.
Started until_told(GuardPool& guards) {
  ProcessSpec spec = shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
  spec.held.cpu_millis = 1000;
  Started started(guards, spec);
  EXPECT_EQ(started.line(), "up");
  return started;
}

// Contract: U-3. It starts when another program ends, not earlier, in the order of arrival; the end of that program
// names it.
TEST(StandBy, HasThePlaceOfOneThatEnds) {
  in_runtime([] {
    const Folder folder;
    GuardPool guards(1);
    Started first = until_told(guards);
    Launched second(guards, shell("echo 2 >> " + folder / "ran"), 7);
    Launched third(guards, shell("echo 3 >> " + folder / "ran"), 8);
    // The guard works in order: when this program has run, it has seen those before it.
    Started other(guards, shell("true"));
    EXPECT_TRUE(other->wait().value().next.task.is_none()) << "it held less than they need";
    EXPECT_FALSE(std::filesystem::exists(folder / "ran"));
    first->terminate(1h);
    const ProcessEnd first_end = first->wait().value();
    EXPECT_EQ(first_end.next, id_of(7));
    const ProcessEnd ended = second->wait().value();
    EXPECT_TRUE(ended.success());
    EXPECT_EQ(ended.next, id_of(8));
    EXPECT_GE(ended.started_at, first_end.ended_at) << "it starts when the other has ended, not when it was launched";
    EXPECT_LT(ended.started_at, ended.ended_at);
    EXPECT_TRUE(third->wait().value().next.task.is_none());
    EXPECT_EQ(read_text(folder / "ran"), "2\n3\n");
  });
}

// Contract: U-3. A program that needs more than what has become free waits for go().
TEST(StandBy, GoesWhenItIsTold) {
  in_runtime([] {
    GuardPool guards(1);
    Started first = until_told(guards);
    Launched wide(guards, shell("exit 5"), 7, 2000);
    first->terminate(1h);
    EXPECT_TRUE(first->wait().value().next.task.is_none());
    wide->go();
    wide->go();
    EXPECT_EQ(wide->wait().value().code, 5);
  });
}

// Contract: U-3. A program that is terminated before it starts never starts; nor does one whose object was destroyed.
TEST(StandBy, EndsBeforeItBegins) {
  in_runtime([] {
    const Folder folder;
    GuardPool guards(1);
    Started first = until_told(guards);
    Launched second(guards, shell("touch " + folder / "second"), 7);
    {
      const Launched third(guards, shell("touch " + folder / "third"), 8);
    }
    second->terminate(1h);
    const Result<ProcessEnd> ended = second->wait();
    EXPECT_EQ(ended.code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(ended.error().message, "could not start: it was terminated before it started");
    Started barrier(guards, shell("true"));
    EXPECT_TRUE(barrier->wait().value().success());
    first->terminate(1h);
    EXPECT_TRUE(first->wait().value().next.task.is_none());
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  });
}

// Contract: U-3. A program that is paused before it starts begins paused; one that cannot start says so in wait().
TEST(StandBy, PausedAndImpossible) {
  in_runtime([] {
    GuardPool guards(1);
    Started first = until_told(guards);
    Launched second(guards, shell("exit 3"), 7);
    ProcessSpec missing = shell("");
    missing.arguments = {"/no/such/program"};
    Launched third(guards, missing, 8);
    second->pause();
    first->terminate(1h);
    EXPECT_EQ(first->wait().value().next, id_of(7));
    second->resume();
    const ProcessEnd ended = second->wait().value();
    EXPECT_EQ(ended.code, 3);
    EXPECT_EQ(ended.next, id_of(8));
    EXPECT_EQ(third->wait().code(), ErrorCode::kNotFound);
  });
}

}  // namespace
}  // namespace rota::worker
