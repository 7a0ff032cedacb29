// The worker's guards: small processes that start programs, report their end, and kill all of them when the worker
// dies, however it dies (guard/main.cc says what a guard promises and what it does not).
//
// A guard starts one program at a time, because vfork() suspends it until the program is executed. So a pool has
// several guards, one per processor up to kGuardsMost, which take turns. A guard is started with its first program, or
// before by start_one(), and again if it has died. The programs of a guard that died are dead.
//
// Thread safety: open_program() from any task; construct and destroy the pool from one. The guards live as long as this
// object; when it is destroyed, programs that still run are killed, without waiting for their end.
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

// Raises this process's soft limit of open files towards the hard limit and returns it; programs get the limit that
// this process was started with.
std::uint64_t raise_open_files();

class GuardPool {
 public:
  static constexpr std::size_t kGuardsMost = 8;
  // 0: one guard per processor.
  explicit GuardPool(std::size_t guards = 0);
  ~GuardPool();
  GuardPool(const GuardPool&) = delete;
  GuardPool& operator=(const GuardPool&) = delete;

  // Starts the first guard now, so that it is ready for the first program.
  Result<void> start_one();

  // A program that was handed to a guard: the program's socket, and the name of the guard's run.
  struct Opened {
    fiber::Descriptor socket;
    std::string run;
    std::size_t sent = 0;  // Bytes of the request that were sent; all of them unless the request is very long.
  };
  // Hands a new program to a guard. The request is sent before the descriptors, so that the guard wakes up once for
  // both. The caller keeps its descriptors.
  Result<Opened> open_program(int out, int err, int progress, std::string_view request);

  // After a guard has died: finds processes that its programs had started by their environment, and kills them.
  static Result<void> bury(const std::string& run);

  // The guards that run at the moment. For tests: no program may be opened meanwhile.
  [[nodiscard]] std::vector<std::int32_t> pids() const;

 private:
  struct One {
    Result<void> start();
    void stop();

    fiber::Mutex mutex;  // Protects the members below.
    fiber::Descriptor socket;
    std::string run;  // The name of this guard process, unique on this machine.
    std::int32_t pid = 0;
  };
  std::vector<std::unique_ptr<One>> guards_;
  sync::Atomic<std::size_t> turn_{0};
};

}  // namespace rota::worker
