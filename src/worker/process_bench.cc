// The part of `rota run` that starts processes: `true`, started and waited for, from a small parent and one of 1 GiB.
// Compares programs that a guard starts with posix_spawn and a pidfd in this process; the argument is how many run at
// once.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "rota/fiber.h"
#include "worker/owned_fd.h"
#include "worker/process.h"

namespace rota::worker {
namespace {

constexpr std::int64_t kBatch = 400;

// Memory that is really there.
class Ballast {
 public:
  explicit Ballast(std::int64_t mebibytes) : bytes_(static_cast<std::size_t>(mebibytes) << 20) {
    for (std::size_t at = 0; at < bytes_.size(); at += 4096) bytes_[at] = 1;
    benchmark::DoNotOptimize(bytes_.data());
  }

 private:
  std::vector<char> bytes_;
};

// Runs `one` kBatch times, as many at once as asked for.
template <class F>
void measure(benchmark::State& state, F&& one) {
  const Ballast ballast(state.range(1));
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    for (auto _ : state) {
      fiber::with_scope([&](fiber::Nursery& n) {
        for (std::int64_t lane = 0; lane < state.range(0); ++lane) {
          n.launch([&] {
            for (std::int64_t i = 0; i < kBatch / state.range(0); ++i) one();
          });
        }
      });
    }
  });
  state.SetItemsProcessed(state.iterations() * (kBatch / state.range(0)) * state.range(0));
}

void start_ours(benchmark::State& state) {
  GuardPool guards;
  const OwnedFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ProcessSpec spec;
  spec.arguments = {"/bin/true"};
  spec.environment = {"PATH=/bin"};
  measure(state, [&] {
    auto process = Process::launch(guards, spec, {null.fd, null.fd, null.fd}).value();
    if (!process->wait().value().success()) state.SkipWithError("true failed");
  });
}

void start_posix_spawn(benchmark::State& state) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  measure(state, [&] {
    pid_t pid = 0;
    if (::posix_spawn(&pid, "/bin/true", nullptr, &attributes, arguments, environment) != 0) {
      state.SkipWithError("posix_spawn failed");
      return;
    }
    auto handle = fiber::Descriptor::adopt(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))).value();
    (void)handle.wait_readable();
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid || status != 0) state.SkipWithError("true failed");
  });
  posix_spawnattr_destroy(&attributes);
}

BENCHMARK(start_ours)->ArgNames({"at_once", "parent_MiB"})->ArgsProduct({{1, 2, 8}, {0, 1024}})->UseRealTime();
BENCHMARK(start_posix_spawn)->ArgNames({"at_once", "parent_MiB"})->ArgsProduct({{1, 2, 8}, {0, 1024}})->UseRealTime();

}  // namespace
}  // namespace rota::worker
