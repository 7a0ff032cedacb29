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
// Of equal items, each belongs to one task of the earlier run, so that an item that was added runs.
//
// A task whose stored outputs are damaged or gone is not done (U-6). If a task that is still to run fetches them, the
// run is not resumed: a new one starts, in which that task and everything that needs it run again.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
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
  std::string content{};       // The hash of the workflow, for the keys.
  bool fresh = false;          // Nothing is kept or resumed.
  bool partial = false;        // A partial run.
  bool reuse_success = false;  // Results of a run that succeeded may be kept, too.
  bool reuse_all = false;      // The same, and the search does not end at a success.
  std::string told{};          // The key of the last run whose end the user was told.
  std::int64_t now_ns = 0;     // Wall time.
  bool results = false;        // Past::own is wanted.
  // Whether these outputs of a task are in the store, undamaged; empty: they are.
  std::function<bool(const std::vector<model::StoredFile>&)> is_stored{};
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
  bool stopped = false;  // It was being cancelled, or has been.
  bool retries = false;  // It has ended, was stopped, or a task has failed: what did not succeed is retried.
  bool lost = false;     // It cannot be resumed: files that its tasks stored are gone, and others need them.
  // It has succeeded a short time ago, and its process was killed before it could say so: that is said, and nothing is
  // run. After kUntoldForNs, somebody who runs the file wants a new run.
  bool untold = false;
  bool finishing = false;  // It was stopped, and `finally` had begun.
  std::size_t tasks = 0;
  std::size_t succeeded = 0;
  std::uint64_t runs = 0;                       // The highest number among the keys of this workflow.
  std::vector<model::WorkflowId> unfinished{};  // Other runs that have not ended.
  std::map<std::uint32_t, KeptResult> kept{};   // By task of the workflow that will run.
  // The same for stages whose items are not known yet: by stage and item.
  std::map<std::string, std::map<std::string, std::vector<KeptResult>>> kept_items{};  // Of equal items: one for each.
  std::vector<StageNews> changed{};    // Why stages that were done run again; in the order of the file.
  std::vector<std::string> missing{};  // Tasks with Choice::kKeep that have no result.
  std::vector<std::size_t> done{};     // By stage: tasks that are done, if the latest run is of this workflow.
  std::vector<Expanded> expanded{};    // If the latest run is of this workflow.
  // If it is resumed: the results of its tasks that are done.
  std::map<std::uint32_t, KeptResult> own{};
  std::vector<std::int64_t>
      expected_ns{};  // By stage: how long its tasks took in the latest run that has it; 0: not known.

  // The latest run will be resumed.
  [[nodiscard]] bool resumes() const { return same && outcome != fleet::Outcome::kSucceeded; }
};

inline constexpr std::int64_t kUntoldForNs = 600'000'000'000;

[[nodiscard]] Past read_past(const fleet::State& state, const PastQuery& query);

[[nodiscard]] std::string run_key(const PastQuery& query, std::uint64_t number);

// The identity of every task of a workflow, by index.
[[nodiscard]] std::vector<Hash128> task_identities(const model::WorkflowSpec& spec);

// What a run would do with a stage, for --dry-run.
struct StagePlan {
  std::size_t tasks = 0;
  std::size_t kept = 0;     // Tasks that are done, or whose results are kept.
  std::size_t cached = 0;   // Other tasks, whose results are in the cache (C-1),
  std::size_t maybe = 0;    // and those of which that is known when others have run.
  std::string note{};       // Why the cached ones are not run.
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
