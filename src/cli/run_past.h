// What the ledger of a workflow file knows about earlier runs, and which of their results the next run keeps (C-1).
//
// The key of a run is "<hash of the workflow>#<number>", followed by 'f' if the run was started with --fresh and by 'p'
// if it is a partial run (--only, --from, --until). If the latest run is of the same workflow, it is resumed.
// Otherwise a new run starts, and it keeps the results of unchanged tasks.
//
// A task's identity is its stage's name, its item, its definition (program or handler, inputs, env, dir, condition) and
// the identities of everything that it needs. Limits, timeout, retries, resources and priority are not part of it. The
// runs are searched from the latest to the earliest, back to the last success or to the last --fresh. The first run in
// which the task was started with another identity, or was made to run, ends the search: its files may have replaced
// those of an earlier success. What a partial run took over as it was counts only if an earlier run shows that it was
// unchanged. The position of a task and the name of the workflow are part of the identity of tasks that refer to them.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "fleet/event.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::fleet {
class State;
struct Workflow;
}  // namespace rota::fleet

namespace rota::cli {

// What a partial run does with a task.
enum class Choice : std::uint8_t {
  kNormal,    // Its result is kept if it is unchanged.
  kRun,       // It runs even if it is unchanged.
  kKeep,      // Its latest result is used even if it has changed; it must have one.
  kLeaveOut,  // It is skipped (model::Stage::left_out).
};

struct PastQuery {
  const model::WorkflowSpec* spec = nullptr;
  std::string content{};          // The hash of the workflow, for the keys.
  bool fresh = false;             // Nothing is kept or resumed.
  bool partial = false;           // A partial run.
  bool reuse_success = false;     // Results of a run that succeeded may be kept, too.
  std::vector<Choice> choices{};  // By task; empty: all normal.
};

// A stage that was done in an earlier run and runs again, or is new.
struct StageNews {
  std::string stage{};
  std::string why{};  // "the program changed", "new", "needs prepare"
};

// A stage whose matrix is a result, and its items.
using Expanded = std::pair<std::uint32_t, std::vector<std::string>>;
// All of a workflow whose items are known, in the order of the tasks that they added: RunShape::expand() needs it. Of
// earlier expansions, which were withdrawn, only the number of tasks is right; no items after them undo them.
[[nodiscard]] std::vector<Expanded> expanded_of(const fleet::Workflow& workflow);

struct Past {
  model::WorkflowId latest{};  // The latest run; none: there is none.
  bool same = false;           // It is of the same workflow.
  std::string key{};           // Its key.
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  bool stopped = false;    // It was being cancelled, or has been.
  bool finishing = false;  // It was stopped, and `finally` had begun.
  std::size_t tasks = 0;
  std::size_t succeeded = 0;
  std::uint64_t runs = 0;                       // The highest number among the keys of this workflow.
  std::vector<model::WorkflowId> unfinished{};  // Other runs that have not ended.
  std::map<std::uint32_t, KeptResult> kept{};   // By task of the workflow that will run.
  // The same for stages whose items are not known yet: by stage and item.
  std::map<std::string, std::map<std::string, KeptResult>> kept_items{};
  std::vector<StageNews> changed{};    // Why stages that were done run again; in the order of the file.
  std::vector<std::string> missing{};  // Tasks with Choice::kKeep that have no result.
  std::vector<std::size_t> done{};     // By stage: tasks that are done, if the latest run is of this workflow.
  std::vector<Expanded> expanded{};    // If the latest run is of this workflow.
  std::vector<std::int64_t>
      expected_ns{};  // By stage: how long its tasks took in the latest run that has it; 0: not known.

  // The latest run will be resumed.
  [[nodiscard]] bool resumes() const { return same && outcome != fleet::Outcome::kSucceeded; }
};

[[nodiscard]] Past read_past(const fleet::State& state, const PastQuery& query);

[[nodiscard]] std::string run_key(const PastQuery& query, std::uint64_t number);

// The identity of every task of a workflow, by index.
[[nodiscard]] std::vector<Hash128> task_identities(const model::WorkflowSpec& spec);

// What a run would do with a stage, for --dry-run.
struct StagePlan {
  std::size_t tasks = 0;
  std::size_t kept = 0;     // Tasks that are done, or whose results are kept.
  std::string why{};        // Why the others run.
  bool open_ended = false;  // How many there are is known when the results are that its matrix names.
};
// FailedPrecondition if a result is missing that --only or --from takes over.
[[nodiscard]] Result<void> check_missing(const Past& past);
[[nodiscard]] std::vector<StagePlan> plan_of(const Past& past, const PastQuery& query);

// "keeping 3 of 9 results, of a and b[..]; running again: c (the program changed), d (needs c)"; for a new run after an
// edit. REQUIRES: something is kept or changed.
[[nodiscard]] std::string edit_sentence(const Past& past, const model::WorkflowSpec& spec);

}  // namespace rota::cli
