// What a worker and its guard say to each other (guard.h says who they are).
//
// The worker opens one stream socket for each command and hands the other end, with the command's stdout, stderr and
// progress pipe, to the guard over their common socket: one packet of one byte, with kFdCount descriptors attached. All
// else goes over the command's own socket:
//
//   worker -> guard   StartHeader, its payload, then any number of Command
//   guard -> worker   one Reply kFailed; or kStarted, if it was asked for, and kEnded; then the end of the stream
//
// A command may stand by: it starts when another of this guard's commands ends whose demand was at least its own, in
// the order of arrival, or when it is told to. So a worker that is full has its next command started by whoever is
// awake already, and not after two messages. The kEnded of the one names the other, which has its place.
//
// When the worker closes the socket, or dies, the command and all that it started is killed. When the guard dies, the
// worker reads the end of the stream without kEnded.
//
// Both ends are the same build on the same machine: structures are sent as they lie in memory.
#pragma once

#include <cstdint>

namespace rota::worker::guard {

inline constexpr std::uint32_t kMagic = 0x526f7431;
inline constexpr std::uint32_t kPayloadMost = 16U << 20;  // More than any system takes as arguments and environment.
inline constexpr int kFdCount = 4;                        // The socket, stdout, stderr, progress.
// What every process of a command has in its environment, unless it cleared it: then the guard's run, '.', and a
// number.
inline constexpr char kRunVariable[] = "ROTA_RUN=";
inline constexpr int kProgressFd = 3;  // What the progress pipe is called in the command: $ROTA_FD.

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
  std::uint64_t grace_ms = 0;    // Between TERM and KILL when the time is up.
  std::uint64_t cpu_millis = 0;  // Of cpu.max, where there is a cgroup.
  std::uint64_t tell_start = 0;  // 1: send kStarted. It costs the worker a wake-up.
  std::uint64_t stand_by = 0;    // 1: start it later, as above.
  std::uint64_t ticket = 0;      // What the worker calls it; not 0 if it stands by.
  std::uint64_t demand_cpu_millis = 0;
  std::uint64_t demand_memory_bytes = 0;
};

enum class CommandKind : std::uint32_t { kTerminate, kPause, kResume, kGo };  // kGo: to one that stands by.
struct Command {
  CommandKind kind{};
  std::uint32_t unused = 0;
  std::uint64_t grace_ms = 0;  // kTerminate.
};

enum class ReplyKind : std::uint32_t { kStarted, kFailed, kEnded };
// Where a start failed.
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
  kStandBy,  // It was told to end before it began.
};

inline constexpr std::uint32_t kFlagTimedOut = 1;       // The guard's timer ended it.
inline constexpr std::uint32_t kFlagForced = 2;         // KILL was needed after the grace.
inline constexpr std::uint32_t kFlagMemory = 4;         // The kernel killed in its cgroup for memory.
inline constexpr std::uint32_t kFlagCgroup = 8;         // It runs in a cgroup.
inline constexpr std::uint32_t kFlagCgroupMemory = 16;  // Its memory limit is the cgroup's, not RLIMIT_AS.

struct Reply {
  ReplyKind kind{};
  std::uint32_t flags = 0;
  Stage stage = Stage::kNone;  // kFailed.
  std::int32_t error = 0;      // kFailed: errno.
  std::int32_t pid = 0;
  std::int32_t status = 0;   // kEnded: as wait() gives it.
  std::uint32_t strays = 0;  // kEnded: processes that it left behind, and that were killed.
  std::uint32_t unused = 0;
  std::uint64_t user_us = 0;
  std::uint64_t system_us = 0;
  std::uint64_t max_rss_bytes = 0;
  std::uint64_t next = 0;  // kEnded: the ticket of the command that starts in its place; 0: none.
};

}  // namespace rota::worker::guard
