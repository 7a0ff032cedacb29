#include "worker/task_table.h"

#include <algorithm>
#include <utility>

#include "base/sim_hooks.h"
#include "rota/assert.h"

namespace rota::worker {

namespace {

bool is_same(const Attempt& a, const Attempt& b) {
  return a.id() == b.id() && a.assign().assigned_ns == b.assign().assigned_ns;
}

bool is_newer(model::AttemptNumber number, std::int64_t assigned_ns, model::AttemptNumber than,
              std::int64_t than_assigned_ns) {
  return assigned_ns != than_assigned_ns ? assigned_ns > than_assigned_ns : number > than;
}

}  // namespace

using model::AttemptId;
using model::TaskId;
using std::chrono::nanoseconds;

TaskTable::TaskTable(model::Resources resources, std::size_t waiting_most)
    : resources_(std::move(resources)), waiting_most_(waiting_most) {}

bool TaskTable::hear(model::Term term) {
  if (term < term_) return false;
  term_ = term;
  return true;
}

// ------------------------------------------------------------------------------------------------------------ look-up

const TaskEntry* TaskTable::find(TaskId task) const {
  const auto found = entries_.find(task);
  return found == entries_.end() ? nullptr : &found->second;
}

std::shared_ptr<Attempt> TaskTable::find_attempt(const AttemptId& id, std::int64_t assigned_ns) const {
  const TaskEntry* entry = find(id.task);
  if (entry == nullptr) return nullptr;
  for (const std::shared_ptr<Attempt>& attempt : {entry->newer, entry->attempt}) {
    if (attempt != nullptr && attempt->id() == id && attempt->assign().assigned_ns == assigned_ns) return attempt;
  }
  return nullptr;
}

bool TaskTable::is_in(Phase phase, const AttemptId& id) const {
  const TaskEntry* entry = find(id.task);
  return entry != nullptr && entry->attempt_number == id.attempt && entry->phase == phase;
}

TaskEntry* TaskTable::entry_at(const Place& place) {
  const auto found = entries_.find(place.task);
  return found == entries_.end() || found->second.ticket != place.ticket ? nullptr : &found->second;
}

const TaskEntry* TaskTable::entry_at(const Place& place) const {
  const TaskEntry* entry = find(place.task);
  return entry == nullptr || entry->ticket != place.ticket ? nullptr : entry;
}

std::vector<model::HeldAttempt> TaskTable::held() const {
  std::vector<model::HeldAttempt> all;
  for (const auto& [task, entry] : entries_) {
    if (entry.phase == Phase::kEnded) continue;
    all.push_back({{task, entry.attempt_number}, entry.assigned_ns});
    if (entry.attempt == nullptr) continue;
    for (const model::MergedTask& member : entry.attempt->assign().merged) {
      if (member.id.task != task) all.push_back({member.id, entry.assigned_ns});
    }
  }
  std::sort(all.begin(), all.end());  // The order of the map means nothing.
  return all;
}

std::vector<std::shared_ptr<Attempt>> TaskTable::attempts_in(Phase phase) const {
  std::vector<std::shared_ptr<Attempt>> all;
  for (const auto& [task, entry] : entries_) {
    if (entry.phase == phase) all.push_back(entry.attempt);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->id() < b->id(); });
  return all;
}

// -------------------------------------------------------------------------------------------------------- transitions

void TaskTable::set_phase(TaskEntry* entry, Phase phase) {
  --counts_[static_cast<std::size_t>(entry->phase)];
  ++counts_[static_cast<std::size_t>(phase)];
  entry->phase = phase;
}

TaskTable::Verdict TaskTable::offer(const std::shared_ptr<Attempt>& attempt) {
  const AttemptId id = attempt->id();
  const std::int64_t assigned_ns = attempt->assign().assigned_ns;
  const auto [found, is_new] = entries_.try_emplace(id.task);
  TaskEntry& entry = found->second;
  // A leader whose log has the end of an attempt assigns neither that attempt again nor an older one; nor does one that
  // cancels an attempt that it has not assigned or taken over. This leader has another log: the former one is lost, or
  // an older copy of it was restored. What is remembered means nothing to it. The very attempt that was cancelled,
  // known by the time of its assignment, is not of another log: a new leader may cancel it before it takes it over.
  const bool acknowledged =
      entry.phase == Phase::kEnded && !entry.acknowledged_in.is_none() && attempt->term() > entry.acknowledged_in;
  const bool same = entry.attempt_number == id.attempt && entry.assigned_ns == assigned_ns;
  const bool cancelled = !same && !entry.cancelled_in.is_none() && attempt->term() >= entry.cancelled_in;
  const bool other_log = acknowledged || cancelled;
  const bool known =
      !is_new && !other_log && !is_newer(id.attempt, assigned_ns, entry.attempt_number, entry.assigned_ns);
  if (is_new) {
    ++counts_[static_cast<std::size_t>(Phase::kEnded)];
  } else if (ROTA_GUARD("worker: known attempts are ignored", known && same)) {
    if (entry.attempt != nullptr) entry.attempt->set_term(attempt->term());  // A new leader took it over.
    if (entry.phase != Phase::kReporting) return Verdict::kKnown;
    entry.final->report.term = attempt->term();
    return Verdict::kReportAgain;
  } else if (ROTA_GUARD("worker: older attempts are ignored", known && !same)) {
    ROTA_SOMETIMES("worker: an older attempt is ignored");
    return Verdict::kKnown;
  } else if (is_live(entry)) {
    if (entry.newer != nullptr &&
        !is_newer(id.attempt, assigned_ns, entry.newer->id().attempt, entry.newer->assign().assigned_ns)) {
      if (is_same(*entry.newer, *attempt)) entry.newer->set_term(attempt->term());
      return Verdict::kKnown;
    }
    ROTA_SOMETIMES("worker: a newer attempt waits for the older one");
    entry.newer = attempt;
    return Verdict::kAfterOlder;
  }
  entry.acknowledged_in = entry.cancelled_in = {};
  // The host has assigned a newer attempt, so it does not need the report of the older one.
  entry.final.reset();
  entry.attempt_number = id.attempt;
  entry.assigned_ns = assigned_ns;
  entry.attempt = attempt;
  entry.told_started = false;
  const bool full = waiting() >= waiting_most_;
  set_phase(&entry, Phase::kQueued);
  entry.ticket = ++last_ticket_;
  line_.push_back({id.task, entry.ticket});
  if (!resources_.fits(attempt->assign().resources, {})) return Verdict::kImpossible;
  return full ? Verdict::kFull : Verdict::kQueued;
}

void TaskTable::start(TaskEntry* entry) {
  set_phase(entry, Phase::kRunning);
  entry->ticket = ++last_ticket_;
  used_.add(entry->attempt->assign().resources);
}

TaskTable::Start TaskTable::start_next() {
  for (; !line_.empty(); line_.pop_front()) {
    TaskEntry* entry = entry_at(line_.front());
    if (entry == nullptr) continue;
    if (ROTA_GUARD("worker: starts what fits", !resources_.fits(entry->attempt->assign().resources, used_))) return {};
    const bool stood_by = entry->phase == Phase::kStandingBy;
    start(entry);
    line_.pop_front();
    return {entry->attempt, stood_by};
  }
  return {};
}

std::shared_ptr<Attempt> TaskTable::start_in_place(const AttemptId& id) {
  if (!is_in(Phase::kStandingBy, id)) return nullptr;
  TaskEntry& entry = entries_.at(id.task);
  if (!resources_.fits(entry.attempt->assign().resources, used_)) return nullptr;
  start(&entry);
  return entry.attempt;
}

std::vector<std::shared_ptr<Attempt>> TaskTable::choose_stand_by() {
  std::vector<std::shared_ptr<Attempt>> chosen;
  if (waiting() == 0 || count(Phase::kStandingBy) >= running()) return chosen;
  std::size_t seen = 0;
  for (const Place& place : line_) {
    TaskEntry* entry = entry_at(place);
    if (entry == nullptr) continue;
    if (++seen > running() || !entry->attempt->can_stand_by()) break;
    if (entry->phase == Phase::kStandingBy) continue;
    set_phase(entry, Phase::kStandingBy);
    chosen.push_back(entry->attempt);
  }
  return chosen;
}

bool TaskTable::set_told_started(const AttemptId& id) {
  const auto found = entries_.find(id.task);
  if (found == entries_.end() || found->second.attempt_number != id.attempt) return false;
  return !std::exchange(found->second.told_started, true);
}

void TaskTable::release(TaskEntry* entry) {
  if (entry->phase == Phase::kRunning) used_.subtract(entry->attempt->assign().resources);
  entry->attempt.reset();
}

bool TaskTable::end(const model::Report& report, nanoseconds now) {
  const auto [found, is_new] = entries_.try_emplace(report.id.task);
  TaskEntry& entry = found->second;
  if (is_new) ++counts_[static_cast<std::size_t>(Phase::kEnded)];
  const bool is_own =
      is_live(entry) && entry.attempt_number == report.id.attempt && entry.assigned_ns == report.assigned_ns;
  if (!is_own && !is_new) {
    if (!is_newer(report.id.attempt, report.assigned_ns, entry.attempt_number, entry.assigned_ns)) return false;
    // A merged task of which an older attempt still runs here. Its report is sent once and not kept.
    if (is_live(entry)) return true;
  }
  if (is_own) release(&entry);
  ROTA_ASSERT(entry.newer == nullptr, "take_newer() comes before end()", report.id.task.value());
  entry.attempt_number = report.id.attempt;
  entry.assigned_ns = report.assigned_ns;
  set_phase(&entry, Phase::kReporting);
  entry.ticket = ++last_ticket_;
  entry.final = std::make_unique<FinalReport>(FinalReport{report, now});
  reports_.push_back({report.id.task, entry.ticket});
  return true;
}

std::shared_ptr<Attempt> TaskTable::take_newer(TaskId task) {
  const auto found = entries_.find(task);
  if (found == entries_.end() || found->second.newer == nullptr) return nullptr;
  TaskEntry& entry = found->second;
  std::shared_ptr<Attempt> newer = std::exchange(entry.newer, nullptr);
  release(&entry);
  set_ended(task, &entry);
  return newer;
}

void TaskTable::note_cancelled(const AttemptId& id, model::Term term) {
  const auto found = entries_.find(id.task);
  if (found == entries_.end() || found->second.attempt_number != id.attempt || found->second.newer != nullptr) return;
  const Attempt* attempt = found->second.attempt.get();
  if (attempt != nullptr && attempt->term() < term) found->second.cancelled_in = term;
}

void TaskTable::acknowledge(const AttemptId& id, std::int64_t assigned_ns) {
  if (!is_in(Phase::kReporting, id)) return;
  TaskEntry& entry = entries_.at(id.task);
  if (entry.assigned_ns != assigned_ns) return;
  entry.acknowledged_in = std::max(term_, entry.final->report.term);
  entry.final.reset();
  set_ended(id.task, &entry);
}

void TaskTable::set_ended(TaskId task, TaskEntry* entry) {
  set_phase(entry, Phase::kEnded);
  entry->ticket = ++last_ticket_;
  ended_.push_back({task, entry->ticket});
  if (ended_.size() <= kRemembered) return;
  const Place oldest = ended_.front();
  ended_.pop_front();
  if (entry_at(oldest) == nullptr) return;  // Assigned again since.
  entries_.erase(oldest.task);
  --counts_[static_cast<std::size_t>(Phase::kEnded)];
}

std::vector<model::Report> TaskTable::reports_to_resend(nanoseconds now, nanoseconds sent_until) {
  std::vector<model::Report> reports;
  for (std::size_t left = reports_.size(); left > 0; --left) {
    const Place place = reports_.front();
    TaskEntry* entry = entry_at(place);
    if (entry != nullptr && entry->final->sent_at > sent_until) break;  // So are all that follow.
    reports_.pop_front();
    if (entry == nullptr) continue;
    entry->final->sent_at = now;
    reports.push_back(entry->final->report);
    reports_.push_back(place);
  }
  return reports;
}

void TaskTable::check_invariants() const {
  model::ResourceUse used;
  std::array<std::size_t, kPhases> counts{};
  for (const auto& [task, entry] : entries_) {
    ++counts[static_cast<std::size_t>(entry.phase)];
    ROTA_ASSERT((entry.attempt != nullptr) == is_live(entry), "an attempt belongs to a task that waits or runs",
                task.value());
    ROTA_ASSERT((entry.final != nullptr) == (entry.phase == Phase::kReporting), "a report belongs to kReporting",
                task.value());
    if (entry.newer != nullptr) {
      ROTA_ASSERT(is_live(entry) && (entry.newer->id().attempt != entry.attempt_number ||
                                     entry.newer->assign().assigned_ns != entry.assigned_ns),
                  "the newer attempt is the same one", task.value());
    }
    if (entry.phase != Phase::kRunning) continue;
    ROTA_ASSERT(resources_.fits(entry.attempt->assign().resources, used), "running tasks do not fit", task.value());
    used.add(entry.attempt->assign().resources);
  }
  ROTA_ASSERT(counts == counts_, "the counts of phases are wrong");
  ROTA_ASSERT(used == used_, "the used resources do not add up");
  const auto current = [this](const std::deque<Place>& queue) {
    return static_cast<std::size_t>(
        std::count_if(queue.begin(), queue.end(), [this](const Place& place) { return entry_at(place) != nullptr; }));
  };
  ROTA_ASSERT(current(line_) == waiting(), "a waiting task is not in line");
  ROTA_ASSERT(current(reports_) == count(Phase::kReporting), "a report is not queued");
}

}  // namespace rota::worker
