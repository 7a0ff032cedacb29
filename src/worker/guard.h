// The worker's side of its guard: the small process that starts commands, reports their end, and kills all of them when
// the worker dies, however it dies (guard/main.cc says what is promised and what is not).
//
// One guard starts one command at a time: until its program is executed, vfork() holds it. So there are a few of them,
// one for each processor up to kGuardsMost, which take turns. Each is started with its first command, or before, and
// again if it has died. The commands of a guard that died are dead.
//
// Thread safety: open_command() from any task; constructing and destroying are for one. The guards live as long as this
// object; when it is destroyed, what still runs is killed, without waiting for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rota/detail/sync.h"
#include "rota/fiber/io.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::worker {

class Guard {
 public:
  static constexpr std::size_t kGuardsMost = 8;
  // 0: one a processor.
  explicit Guard(std::size_t guards = 0);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Starts the first of them now, so that it is ready when the first command comes.
  Result<void> start_one();

  // A command that is the guard's: its socket, and the name of the guard's run.
  struct Opened {
    fiber::Descriptor socket;
    std::string run;
    std::size_t sent = 0;  // Bytes of the request: all, if it is of ordinary size.
  };
  // Hands the descriptors of a new command over, which stay the caller's, with its request on the way: the guard is
  // woken once for both.
  Result<Opened> open_command(int out, int err, int progress, std::string_view request);

  // After a guard has died: kills what its commands had started and what is still alive, by its environment.
  static Result<void> bury(const std::string& run);

  // Of the processes that there are just now. For tests: no command may be opened meanwhile.
  [[nodiscard]] std::vector<std::int32_t> pids() const;

 private:
  struct One {
    Result<void> start();
    void stop();

    fiber::Mutex mutex;  // For the members below.
    fiber::Descriptor socket;
    std::string run;  // Of this guard and no other, on this machine.
    std::int32_t pid = 0;
  };
  std::vector<std::unique_ptr<One>> guards_;
  sync::Atomic<std::size_t> turn_{0};
};

}  // namespace rota::worker
