// What a worker knows about each of its tasks: one entry per task, with its phase. No fibers, no time, no I/O.
//
//                   offer()          start_next(), start_in_place()          end()             acknowledge()
//   (unknown) ───► kQueued ─────────────────► kRunning ─────────────────► kReporting ───────────────► kEnded
//                     │ choose_stand_by()         ▲                            ▲                         ▲
//                     └──────► kStandingBy ───────┴────────────────────────────┘   take_newer() ─────────┘
//
// end() and take_newer() also end a task that is queued or stands by.
//
// A task waits while it is queued or stands by. Tasks start strictly in the order of arrival: only the first in line is
// considered, so that small tasks never overtake a large one for ever. The exception is start_in_place(): the executor
// has started the task in the place of another one.
//
// A newer attempt of a task that waits or runs is kept in the entry of the older one. It is offered when the older one
// has ended. Of two attempts of one task, the one with the higher number is the newer; a log that was lost begins again
// with low numbers, so that an attempt that was assigned later is newer, too.
//
// Invariants (check_invariants()):
//   (1) used_ is the sum of what the tasks in kRunning hold, and fits into the worker's resources
//   (2) counts_ has the number of entries in each phase; a waiting entry is in line_ exactly once with its ticket
//   (3) an entry has an attempt exactly if it waits or runs, a report exactly in kReporting; only an entry that waits
//       or runs has a newer attempt, with a higher number or assigned at another time
// Every operation takes amortised constant time, except held(), and choose_stand_by(), which looks at as many entries
// as tasks run. Thread safety: none; the engine owns it under its lock.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "model/message.h"
#include "rota/model/ids.h"
#include "rota/model/resources.h"
#include "worker/attempt.h"

namespace rota::worker {

enum class Phase : std::uint8_t {
  kQueued,      // Waits for its resources.
  kStandingBy,  // Waits, and its program is already with the executor.
  kRunning,
  kReporting,  // It has ended; the final report is not acknowledged.
  kEnded,      // Nothing is left to do. Remembered, so that messages about it that arrive again are recognised.
};
inline constexpr std::size_t kPhases = 5;

// A final report that is not acknowledged.
struct FinalReport {
  model::Report report{};
  std::chrono::nanoseconds sent_at{0};
};

// One task.
struct TaskEntry {
  model::AttemptNumber attempt_number{};
  std::int64_t assigned_ns = 0;  // Tells attempts of different logs apart (model/message.h).
  Phase phase = Phase::kEnded;
  model::Term acknowledged_in{};         // kEnded: the newest term when the report was acknowledged; none: it was not.
  model::Term cancelled_in{};            // Cancelled by a leader newer than the one that it had then; none: not.
  bool told_started = false;             // The host was told that this attempt, which stood by, has started.
  std::uint64_t ticket = 0;              // Changes with the phase: an item of a queue with another ticket is outdated.
  std::shared_ptr<Attempt> attempt{};    // While it waits or runs.
  std::shared_ptr<Attempt> newer{};      // A newer attempt, to be offered when this one has ended.
  std::unique_ptr<FinalReport> final{};  // kReporting.
};

class TaskTable {
 public:
  static constexpr std::size_t kRemembered = 65'536;  // Entries in kEnded; the oldest is forgotten first.

  TaskTable(model::Resources resources, std::size_t waiting_most);

  // Notes the term of a message. False: an older leader sent it, and it must be ignored.
  bool hear(model::Term term);
  // The newest term heard of.
  [[nodiscard]] model::Term term() const { return term_; }

  enum class Verdict : std::uint8_t {
    kQueued,
    kImpossible,   // Queued, but it needs more than this worker has. The caller must end() it.
    kFull,         // Queued, but too many tasks wait. The caller must end() it.
    kAfterOlder,   // It waits for the end of an older attempt of this task. The caller must stop the older one.
    kReportAgain,  // This attempt has ended, and its report is not acknowledged: send it again.
    kKnown,        // This attempt or a newer one is known: nothing to do.
  };
  Verdict offer(const std::shared_ptr<Attempt>& attempt);

  // Null if the task is not known.
  [[nodiscard]] const TaskEntry* find(model::TaskId task) const;
  // The attempt with this id, assigned at this time, that waits, runs, or is kept as a newer attempt; null if there is
  // none.
  [[nodiscard]] std::shared_ptr<Attempt> find_attempt(const model::AttemptId& id, std::int64_t assigned_ns) const;
  // True if the attempt with this id is in this phase.
  [[nodiscard]] bool is_in(Phase phase, const model::AttemptId& id) const;

  struct Start {
    std::shared_ptr<Attempt> attempt{};  // Null: nothing can start now.
    bool stood_by = false;
  };
  // Starts the first task in line, if what it holds is free.
  Start start_next();
  // The executor has started this attempt, which stood by, in the place of one that ended. Null if it does not stand
  // by, or does not fit.
  std::shared_ptr<Attempt> start_in_place(const model::AttemptId& id);
  // Lets the first tasks in line stand by, as many as run, and returns those that did not before. It stops at the first
  // one that cannot stand by, so that no task overtakes it.
  std::vector<std::shared_ptr<Attempt>> choose_stand_by();
  // True for the first call for this attempt.
  bool set_told_started(const model::AttemptId& id);

  // Ends an attempt with a report, which is kept until it is acknowledged. The attempt waits or runs; or it belongs to
  // a merged task, which has no entry before its end. False: the report need not be sent, because this attempt has
  // ended before or a newer one is known. REQUIRES: report.is_final().
  bool end(const model::Report& report, std::chrono::nanoseconds now);
  // Removes and returns the newer attempt of this task, if there is one. The older attempt then ends without a report.
  std::shared_ptr<Attempt> take_newer(model::TaskId task);
  // A leader of this term has cancelled the attempt.
  void note_cancelled(const model::AttemptId& id, model::Term term);
  // The final report of this attempt is durable at the host.
  void acknowledge(const model::AttemptId& id, std::int64_t assigned_ns);

  // Unacknowledged final reports that were last sent at or before `sent_until`; they count as sent at `now`.
  std::vector<model::Report> reports_to_resend(std::chrono::nanoseconds now, std::chrono::nanoseconds sent_until);
  // Every attempt whose end is not reported, or whose report is not acknowledged; merged tasks included.
  [[nodiscard]] std::vector<model::HeldAttempt> held() const;
  // Every attempt in this phase. REQUIRES: kQueued, kStandingBy or kRunning.
  [[nodiscard]] std::vector<std::shared_ptr<Attempt>> attempts_in(Phase phase) const;

  [[nodiscard]] std::size_t count(Phase phase) const { return counts_[static_cast<std::size_t>(phase)]; }
  [[nodiscard]] std::size_t waiting() const { return count(Phase::kQueued) + count(Phase::kStandingBy); }
  [[nodiscard]] std::size_t running() const { return count(Phase::kRunning); }
  [[nodiscard]] const model::Resources& resources() const { return resources_; }
  void check_invariants() const;

 private:
  struct Place {
    model::TaskId task{};
    std::uint64_t ticket = 0;
  };
  struct TaskHash {
    std::size_t operator()(model::TaskId task) const { return std::hash<std::uint64_t>()(task.value()); }
  };
  using Entries = std::unordered_map<model::TaskId, TaskEntry, TaskHash>;

  [[nodiscard]] static bool is_live(const TaskEntry& entry) { return entry.phase <= Phase::kRunning; }
  // The entry that this place in a queue means; null if the place is outdated.
  TaskEntry* entry_at(const Place& place);
  [[nodiscard]] const TaskEntry* entry_at(const Place& place) const;
  void set_phase(TaskEntry* entry, Phase phase);
  void start(TaskEntry* entry);
  // Gives back what the attempt holds, and forgets the attempt.
  void release(TaskEntry* entry);
  void set_ended(model::TaskId task, TaskEntry* entry);

  const model::Resources resources_;
  const std::size_t waiting_most_;
  model::Term term_{};
  std::uint64_t last_ticket_ = 0;
  model::ResourceUse used_{};
  std::array<std::size_t, kPhases> counts_{};
  Entries entries_;
  std::deque<Place> line_;  // Tasks that wait, in the order of arrival, and outdated places.
  std::deque<Place>
      reports_;              // Tasks in kReporting, in the order in which their reports were sent, and outdated places.
  std::deque<Place> ended_;  // Tasks in kEnded, in the order of their end, and outdated places.
};

}  // namespace rota::worker
