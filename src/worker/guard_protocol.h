// The protocol between a worker and its guards (guard_pool.h).
//
// The worker opens one stream socket per program. It hands the other end of this socket, together with the program's
// stdout, stderr and progress pipe, to a guard over their common socket: one packet of one byte, with kFdCount
// descriptors attached. Everything else goes over the program's own socket:
//
//   worker -> guard   StartHeader, its payload, then any number of Control
//   guard -> worker   one Reply kFailed; or kStarted, if it was asked for, and kEnded; then the end of the stream
//
// A program may stand by: the guard starts it when another of its programs ends that held at least as much processor
// and memory, in the order of arrival, or on kGo. So the next program of a full worker is started by a process that is
// awake already, and not after two messages. The kEnded of the program that ended names the one that took its place.
// This comparison is the guard's own copy of a fit rule (model/resources.h), for two kinds of resource only: the guard
// links none of our libraries, and the worker lets no task stand by that holds anything else
// (ProgramAttempt::can_stand_by).
//
// When the worker closes the socket, or dies, the program and all processes that it started are killed. When the guard
// dies, the worker reads the end of the stream without kEnded.
//
// Both sides are of the same build on the same machine: structures are sent as they lie in memory.
#pragma once

#include <cstdint>

namespace rota::worker::guard {

inline constexpr std::uint32_t kMagic = 0x526f7431;
inline constexpr std::uint32_t kPayloadMost = 16U << 20;  // Above what any system accepts as arguments and environment.
inline constexpr int kFdCount = 4;                        // The socket, stdout, stderr, progress.
// Every process of a program has this in its environment, unless it cleared it. The value is the guard's run, '.', and
// a number.
inline constexpr char kRunVariable[] = "ROTA_RUN=";
inline constexpr int kProgressFd = 3;  // The number of the progress pipe in the program: $ROTA_FD.

// Names an attempt. The guard only passes it on.
struct Ticket {
  std::uint64_t task = 0;  // 0: none.
  std::uint64_t attempt = 0;
};

// The payload: working directory, cgroup directory, arguments, environment; each ends with a zero byte.
struct StartHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t payload_bytes = 0;
  std::uint32_t argument_count = 0;
  std::uint32_t environment_count = 0;
  // Limits; 0 is none.
  std::uint64_t cpu_seconds = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;
  std::uint64_t timeout_ms = 0;
  std::uint64_t grace_ms = 0;    // Between TERM and KILL after a timeout.
  std::uint64_t tell_start = 0;  // 1: send kStarted. It costs the worker a wake-up.
  std::uint64_t stand_by = 0;    // 1: start it later, as described above.
  Ticket ticket{};               // A program that stands by needs one.
  // What the program's task holds, for the programs that stand by.
  std::uint64_t held_cpu_millis = 0;
  std::uint64_t held_memory_bytes = 0;
};

enum class ControlKind : std::uint32_t { kTerminate, kPause, kResume, kGo };  // kGo: start one that stands by.
struct Control {
  ControlKind kind{};
  std::uint32_t unused = 0;
  std::uint64_t grace_ms = 0;  // kTerminate.
};

enum class ReplyKind : std::uint32_t { kStarted, kFailed, kEnded };
// The step at which a start failed.
enum class Stage : std::uint32_t {
  kNone,
  kRequest,
  kProcess,
  kGroup,
  kCgroup,
  kLimits,
  kDirectory,
  kDescriptors,
  kExec,
  kStandBy,  // It was terminated while it stood by.
};

inline constexpr std::uint32_t kFlagTimedOut = 1;  // The guard's timer ended it.
inline constexpr std::uint32_t kFlagForced = 2;    // KILL was needed after the grace period.
inline constexpr std::uint32_t kFlagMemory = 4;    // The kernel killed processes of its cgroup for memory.

struct Reply {
  ReplyKind kind{};
  std::uint32_t flags = 0;
  Stage stage = Stage::kNone;  // kFailed.
  std::int32_t error = 0;      // kFailed: errno.
  std::int32_t pid = 0;
  std::int32_t status = 0;   // kEnded: as wait() returns it.
  std::uint32_t strays = 0;  // kEnded: processes that the program left behind, and that were killed.
  std::uint32_t unused = 0;
  std::uint64_t started_ns = 0;  // kStarted, kEnded: CLOCK_MONOTONIC.
  std::uint64_t ended_ns = 0;    // kEnded.
  std::uint64_t user_us = 0;
  std::uint64_t system_us = 0;
  std::uint64_t max_rss_bytes = 0;
  Ticket next{};  // kEnded: the program that starts in its place.
};

}  // namespace rota::worker::guard
