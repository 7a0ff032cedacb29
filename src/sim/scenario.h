// A scenario: everything that happens to a simulated fleet from outside. A seed draws one; a run follows from it alone.
//
// A scenario is a value: it can be written as text, read back, and made smaller by removing parts (shrink.h). Draws
// during a run (the delay of a message, the end of a task) are hashes of the scenario's seed and of what is drawn, not
// of a sequence: removing one part leaves most of the others as they were.
//
// Thread safety: as of any value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/policy.h"
#include "model/enum_names.h"
#include "model/workflow_spec.h"
#include "rota/model/fields.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"

namespace rota::sim {

// Rates of small faults, which are drawn per message or per operation until the faults end.
struct Noise {
  std::int64_t delay_us = 100;          // Mean delay of a message.
  std::int64_t duplicate_permille = 0;  // Messages that arrive a second time, later.
  std::int64_t stall_permille = 0;      // Messages that are held up for up to five seconds.
  std::int64_t error_permille = 0;      // Sends that return an error; half of these messages arrive nevertheless.
  std::int64_t receive_error_permille = 0;
  std::int64_t sync_us = 200;             // Mean duration of a sync of the disk.
  std::int64_t slow_sync_permille = 0;    // Syncs that take 100 times as long.
  std::int64_t sync_error_per_10000 = 0;  // Syncs that fail, which ends the host.
  std::int64_t full_permille = 0;         // Submissions that find the ledger's queue full.
  std::int64_t lost_answer_permille = 0;  // Answers that do not reach the client.
  std::int64_t same_key_permille = 0;     // Submissions that a client repeats although it got its answer.
  ROTA_FIELDS(delay_us, duplicate_permille, stall_permille, error_permille, receive_error_permille, sync_us,
              slow_sync_permille, sync_error_per_10000, full_permille, lost_answer_permille, same_key_permille)
  friend bool operator==(const Noise&, const Noise&) = default;
};

// A drawn task takes half of its "ms" to 1.5 times as long.
inline constexpr std::int64_t kLongestTaskMs = 12'000;

struct SimSettings {
  fleet::Policy policy{};
  std::int64_t bus_capacity = 4096;
  std::int64_t heartbeat_ms = 5000;
  std::int64_t ledger_queue = 4096;  // Records that wait for the disk.
  std::int64_t snapshot_every = 1000;
  bool follow = true;
  bool compact = true;
  bool stand_by = true;     // The executors let programs stand by.
  bool over_redis = false;  // The real Redis bus over a network of bytes, instead of the in-process bus.
  bool on_etcd = false;     // The replicated ledger on a stand-in for etcd, instead of the simulated disk.
  ROTA_FIELDS(policy, bus_capacity, heartbeat_ms, ledger_queue, snapshot_every, follow, compact, stand_by, over_redis,
              on_etcd)
  friend bool operator==(const SimSettings&, const SimSettings&) = default;
};

enum class FaultKind : std::uint8_t {
  kHostCrash,
  kHostCrashAt,        // At the `count`-th pass of a named point after `at_ms`.
  kWorkerCrash,        // It returns after `for_ms` under its name; 0: never.
  kWorkerLeaves,       // It stops in an orderly way, and returns after `for_ms`; 0: never.
  kPartition,          // Nothing passes between the worker and the host.
  kPartitionToWorker,  // Only in this direction.
  kPartitionToHost,
  kBusUnreachable,  // The worker, or the host, gets errors from its bus.
  kWorkerSlow,      // Its tasks take `count` times as long.
  kDiskError,       // The next sync fails.
  kRedis,           // Something happens to Redis; `count` draws what. The in-process bus loses all messages.
  kClockJump,       // The wall clock of the host's next start is `count` milliseconds off.
  kBusFull,         // Nothing can be sent; what was sent can be received. A Redis without memory does this.
};
ROTA_ENUM_NAMES(FaultKind, kBusFull, "host_crash", "host_crash_at", "worker_crash", "worker_leaves", "partition",
                "partition_to_worker", "partition_to_host", "bus_unreachable", "worker_slow", "disk_error", "redis",
                "clock_jump", "bus_full")

// Where a host may crash.
enum class CrashPoint : std::uint8_t {
  kBeforeSubmit,
  kAfterSubmit,
  kAfterDurable,
  kBetweenEffects,  // Before a message to a worker is sent.
  kInSnapshot,
  kInCompaction,
  kInRecovery,
};
inline constexpr std::size_t kCrashPoints = 7;
ROTA_ENUM_NAMES(CrashPoint, kInRecovery, "before_submit", "after_submit", "after_durable", "between_effects",
                "in_snapshot", "in_compaction", "in_recovery")

struct Fault {
  FaultKind kind = FaultKind::kHostCrash;
  std::int64_t at_ms = 0;
  std::int64_t for_ms = 0;
  std::int64_t worker = 0;  // Its index; -1: the host.
  std::int64_t count = 1;
  CrashPoint point = CrashPoint::kBeforeSubmit;
  ROTA_FIELDS(kind, at_ms, for_ms, worker, count, point)
  friend bool operator==(const Fault&, const Fault&) = default;
};

enum class ClientActionKind : std::uint8_t {
  kSubmit,
  kPause,
  kResume,
  kCancel,
  kRetry,
  kPriority,
  kQuota,          // `count` tasks of the workflow's user at the same time; 0: no limit.
  kDisableWorker,  // `workflow` is the worker's index.
  kEnableWorker,
  kRead,  // Of the follower: a client sees what it was told.
};
ROTA_ENUM_NAMES(ClientActionKind, kRead, "submit", "pause", "resume", "cancel", "retry", "priority", "quota",
                "disable_worker", "enable_worker", "read")
struct ClientAction {
  ClientActionKind kind = ClientActionKind::kSubmit;
  std::int64_t at_ms = 0;
  std::int64_t workflow = 0;  // Its index.
  std::int64_t task = -1;     // -1: the whole workflow.
  std::int64_t count = 0;
  bool vanishes = false;  // The client disconnects before it gets an answer.
  ROTA_FIELDS(kind, at_ms, workflow, task, count, vanishes)
  friend bool operator==(const ClientAction&, const ClientAction&) = default;
};

struct Scenario {
  std::uint64_t seed = 1;
  SimSettings settings{};
  Noise noise{};
  std::int64_t faults_end_ms = 10'000;
  // The first worker is the healthy core: it can run every task, and it lives when the faults have ended.
  std::vector<model::WorkerSpec> workers{};
  std::vector<model::WorkflowSpec> workflows{};
  std::vector<ClientAction> actions{};
  std::vector<Fault> faults{};
  ROTA_FIELDS(seed, settings, noise, faults_end_ms, workers, workflows, actions, faults)
};

// How large a drawn fleet is.
struct ScenarioSize {
  std::int64_t workers_most = 5;
  std::int64_t tasks_most = 60;
  bool full = false;  // Exactly so many workers and about so many tasks, with every class of faults in layer (a): P-20.
  bool redis = false;  // Always over Redis, and
  bool etcd = false;   // always on etcd: layer (b), which one seed in twenty has otherwise.
};
[[nodiscard]] Scenario draw_scenario(std::uint64_t seed, const ScenarioSize& size = {});

// One part per line: `fault kind=host_crash at_ms=1200`. Defaults are left out.
[[nodiscard]] std::string to_text(const Scenario& scenario);
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text);

// What a task does is written in its inputs: {"ms": 120, "fail": 20, "up": "${first.result}"}.
[[nodiscard]] std::int64_t total_tasks(const Scenario& scenario);

// An even 64-bit number from the seed and what is drawn.
[[nodiscard]] std::uint64_t draw(std::uint64_t seed, std::string_view what, std::uint64_t a = 0, std::uint64_t b = 0,
                                 std::uint64_t c = 0);

}  // namespace rota::sim
