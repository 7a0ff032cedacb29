// What workers, clients and the disk saw during a run. The checkers (checkers.h) get this and the final log, and
// nothing of the brain's state.
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fleet/record.h"
#include "model/message.h"
#include "rota/model/resources.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"

namespace rota::sim {

using std::chrono::nanoseconds;

// A life of a worker process.
struct WorkerLifeId {
  std::size_t worker = 0;  // Its index in the scenario.
  std::uint32_t life = 0;
  friend auto operator<=>(const WorkerLifeId&, const WorkerLifeId&) = default;
};

enum class ExecutionEnd : std::uint8_t { kRuns, kSucceeded, kFailed, kStopped, kKilled };

// One execution of an attempt, as the code that ran the task saw it.
struct Execution {
  WorkerLifeId where{};
  model::AttemptId id{};
  std::vector<model::AttemptId> members{};  // Of a merged execution, `id` first; otherwise empty.
  model::ResourceUse held{};
  std::string inputs{};
  nanoseconds started{0};
  nanoseconds ended{0};
  ExecutionEnd end = ExecutionEnd::kRuns;
  std::string result{};  // JSON; of a merged execution an array.
};

// A message that a worker received.
struct Delivery {
  WorkerLifeId where{};
  nanoseconds at{0};
  model::ToWorker message{};
};

// A final report that a worker sent, or one that the host acknowledged to the bus.
struct FinalReportSeen {
  nanoseconds at{0};
  model::AttemptId id{};
};

// A worker told the host that it has started an attempt.
struct StartSeen {
  nanoseconds at{0};
  std::string worker{};
  model::AttemptId id{};
  std::uint64_t host_life = 0;
};

// The first time that a term's host sent an assignment.
struct AssignmentSent {
  std::string worker{};
  model::AttemptId id{};
  std::uint64_t term = 0;
  bool has_devices = false;  // Such an assignment may be sent when its task starts.
};

// What a client was told.
struct ClientAnswer {
  nanoseconds asked{0};
  nanoseconds at{0};
  std::string key{};  // Of a submission.
  fleet::Command command{};
  ErrorCode code = ErrorCode::kOk;  // kClosed, kTimeout: it does not know whether it was executed.
  fleet::Events events{};
};

// A read of the follower.
struct ClientRead {
  nanoseconds at{0};
  std::uint64_t wanted = 0;  // The index that the client was told before.
  std::uint64_t got = 0;
  std::uint64_t host_life = 0;
};

// A record as the disk has it.
struct StoredRecord {
  std::string bytes{};
  fleet::Record record{};
  nanoseconds durable_at{0};
  std::uint64_t host_life = 0;
};

struct Witness {
  std::vector<model::WorkerSpec> workers{};
  std::vector<Execution> executions{};
  std::vector<Delivery> deliveries{};
  std::vector<FinalReportSeen> final_reports{};
  std::vector<FinalReportSeen> acknowledged{};                        // To the bus, by a host.
  std::vector<AssignmentSent> assignments{};                          // In order.
  std::vector<StartSeen> starts{};                                    // That a host received.
  std::set<std::pair<std::string, model::AttemptId>> told_to_stop{};  // Attempts that a host told a worker to stop.
  std::vector<std::string> never_acknowledged{};  // Messages that a host took from the bus and left there.
  std::vector<ClientAnswer> answers{};
  std::vector<ClientRead> reads{};
  std::vector<StoredRecord> log{};  // All records that ever became durable, in order.
  std::string snapshot{};           // The latest one, and the index of its last record.
  std::uint64_t snapshot_index = 0;
  std::vector<std::string> troubles{};  // What the world itself found wrong: a host that ended without a cause.
  std::vector<WorkerLifeId> alive{};    // Lives of workers that had not ended when the run did.
  nanoseconds heartbeat{0};             // The interval of the workers' heartbeats.
  nanoseconds heartbeat_ttl{0};         // A worker that is silent for so long is given up.
  nanoseconds settle{0};                // After the faults, the network needs so long to notice what is broken.
  nanoseconds host_started{0};          // The last life of the host.
  nanoseconds faults_ended{0};
  nanoseconds late_registration{0};  // When the last late copy of a registration arrived.
  nanoseconds ended{0};
  bool all_ended = false;  // Every workflow ended before the limit.
  nanoseconds all_ended_at{0};
  nanoseconds limit{0};          // When they should have ended at the latest.
  std::uint64_t event_hash = 0;  // Of the fiber runtime.
  std::uint64_t host_lives = 0;
  std::uint64_t messages = 0;
};

}  // namespace rota::sim
