// The worker's side of its guard: the small process that starts commands, reports their end, and kills all of them when
// the worker dies, however it dies (guard/main.cc says what is promised and what is not).
//
// The guard is started with the first command, and again if it has died. The commands of a guard that died are dead.
//
// Thread safety: open_command() from any task; constructing and destroying are for one. The guard lives as long as this
// object; when it is destroyed, what still runs is killed, without waiting for it.
#pragma once

#include <cstdint>
#include <string>

#include "rota/fiber/io.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::worker {

class Guard {
 public:
  Guard() = default;
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Hands the descriptors of a new command over, which stay the caller's, and returns the command's socket.
  Result<fiber::Descriptor> open_command(int out, int err, int progress);

  // Of the guard's process; 0 if there is none just now.
  [[nodiscard]] std::int32_t pid() const { return pid_; }

 private:
  Result<void> start();
  void stop();

  fiber::Mutex mutex_;  // For the members below.
  fiber::Descriptor socket_;
  std::int32_t pid_ = 0;
};

}  // namespace rota::worker
