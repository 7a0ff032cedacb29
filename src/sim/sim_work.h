// What simulated tasks do, as programs and as handlers: how long they take, how they end and what they return follows
// from the scenario's seed and from their inputs. Every execution is noted in the witness.
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "model/message.h"
#include "rota/worker.h"
#include "sim/scenario.h"
#include "sim/witness.h"
#include "worker/fake_executor_testing.h"

namespace rota::sim {

// The work of one life of a worker.
class SimWork final : public worker::testing::FakeWatch {
 public:
  // `slowness`: tasks that start now take this many times as long.
  SimWork(std::uint64_t seed, WorkerLifeId where, Witness& witness, const std::int64_t& slowness)
      : seed_(seed), where_(where), witness_(witness), slowness_(slowness) {}

  [[nodiscard]] worker::testing::FakeExecutor::Behave behaviour();
  [[nodiscard]] TaskHandler handler();
  // The process dies: nothing of it runs any more.
  void kill();

  // FakeWatch.
  void on_start(const worker::ProgramRequest& request) override;
  void on_end(const worker::ProgramRequest& request, const model::AttemptOutcome* outcome) override;

 private:
  struct Plan {
    nanoseconds lasts{0};
    bool fails = false;
    bool checkpoints = false;
    std::string result{};
  };
  [[nodiscard]] Plan plan(const model::AttemptId& id, const std::string& inputs, std::size_t merged) const;
  std::size_t note_start(const model::AttemptId& id, const std::string& inputs);
  void note_end(std::size_t execution, ExecutionEnd end, const std::string& result);

  const std::uint64_t seed_;
  const WorkerLifeId where_;
  Witness& witness_;
  const std::int64_t& slowness_;
  bool dead_ = false;
  std::map<model::AttemptId, std::size_t> running_;  // In Witness::executions.
};

}  // namespace rota::sim
