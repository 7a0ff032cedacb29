#include "sim/checkers.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "fleet/brain.h"
#include "fleet/record.h"
#include "host/recovery.h"
#include "model/json.h"

namespace rota::sim {

namespace {

using model::AttemptId;
using model::TaskId;

constexpr std::chrono::milliseconds kAcknowledgedWithin{500};  // Without faults.

std::string text_of(const AttemptId& id) {
  return id.task.to_string() + " attempt " + std::to_string(id.attempt.value());
}
std::string text_of(const WorkerLifeId& where) {
  return "w" + std::to_string(where.worker) + " (life " + std::to_string(where.life) + ")";
}
std::string text_of(nanoseconds at) { return std::to_string(at.count() / 1'000'000) + " ms"; }

class Judge {
 public:
  explicit Judge(const Witness& witness) : witness_(witness), rules_(violations_) {}

  std::vector<Violation> run() {
    for (const std::string& trouble : witness_.troubles) broken("host", trouble);
    read_log();
    check_replay();
    check_answers();
    check_executions();
    check_results();
    check_resources();
    check_deliveries();
    check_order();
    check_acknowledged();
    check_given_up();
    check_stale();
    check_late_starts();
    check_reports();
    check_reads();
    check_quiet();
    rules_.finish(true);
    return std::move(violations_);
  }

 private:
  void broken(std::string checker, std::string what) {
    if (violations_.size() < 20) violations_.push_back({std::move(checker), std::move(what)});
  }

  // What the log says about each attempt, and when that was durable.
  struct AttemptFacts {
    nanoseconds assigned{0};  // Durable at.
    std::string worker{};
    std::uint64_t record = 0;
    std::uint64_t term = 0;
    nanoseconds over{-1};  // When it was durable that this attempt no longer counts; below 0: never.
    bool succeeded = false;
    std::string result{};
  };

  void read_log();
  void note(const StoredRecord& stored);
  void end_attempt(TaskId task, nanoseconds at);
  void check_replay();
  void check_answers();
  void check_executions();
  void check_needs(const AttemptId& id, const Execution& execution, const model::WorkflowSpec& spec);
  void check_results();
  void check_resources();
  void check_deliveries();
  void check_order();
  void check_acknowledged();
  void check_given_up();
  void check_stale();
  void check_late_starts();
  void check_reports();
  void check_reads();
  void check_quiet();

  const Witness& witness_;
  std::vector<Violation> violations_;
  LogRules rules_;
  std::map<AttemptId, AttemptFacts> attempts_;
  std::map<TaskId, AttemptId> current_;
  std::map<TaskId, nanoseconds> succeeded_at_;                                  // Durable.
  std::map<TaskId, nanoseconds> ended_at_;                                      // Durable: the first end of any kind.
  std::map<TaskId, std::vector<std::pair<nanoseconds, std::string>>> results_;  // Durable; a stage may run again.
  std::map<std::uint32_t, std::string> names_;
  std::map<std::string, std::set<model::WorkflowId>> accepted_;  // By key.
  std::map<model::WorkflowId, model::WorkflowSpec> specs_;
  std::map<model::WorkflowId, StagePlan> plans_;
  bool round_robin_ = false;               // This mode assigns no devices.
  std::set<model::WorkflowId> forgotten_;  // Their keys may be used again.
};

// The chain, the terms, and the rules.
void Judge::read_log() {
  fleet::LogPosition position;
  std::map<std::uint64_t, std::uint64_t> life_of_term;
  std::uint64_t last_life = 0;
  for (const StoredRecord& stored : witness_.log) {
    const Result<fleet::Record> decoded = fleet::decode_record(stored.bytes, position);
    if (!decoded.ok()) return broken("chain", decoded.error().to_string());
    const auto [life, is_new] = life_of_term.try_emplace(decoded->term.value(), stored.host_life);
    if (life->second != stored.host_life) {
      broken("terms", "term " + std::to_string(decoded->term.value()) + " has records of two hosts");
    }
    if (is_new && stored.host_life < last_life) broken("terms", "an earlier host writes after a later one");
    last_life = stored.host_life;
    rules_.see(stored.record);
    note(stored);
  }
}

void Judge::end_attempt(TaskId task, nanoseconds at) {
  const auto found = current_.find(task);
  if (found == current_.end()) return;
  AttemptFacts& facts = attempts_[found->second];
  if (facts.over.count() < 0) facts.over = at;
}

void Judge::note(const StoredRecord& stored) {
  const fleet::Record& record = stored.record;
  if (const auto* set = std::get_if<fleet::SetPolicy>(&record.command)) {
    round_robin_ = set->policy.mode == fleet::DispatchMode::kStaticRoundRobin;
  }
  for (const fleet::Event& event : record.events) {
    if (const auto* registered = std::get_if<fleet::WorkerRegistered>(&event)) {
      if (const auto* command = std::get_if<fleet::RegisterWorker>(&record.command)) {
        names_[registered->worker.value()] = command->worker.name;
      }
    } else if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
      if (const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command)) {
        accepted_[submit->key].insert(accepted->workflow);
        specs_[accepted->workflow] = submit->workflow;
        plans_[accepted->workflow] = StagePlan(submit->workflow);
      }
    } else if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
      std::vector<AttemptId> tasks = assigned->members;
      tasks.push_back({assigned->task, assigned->attempt});
      for (const AttemptId& id : tasks) {
        attempts_[id] = {.assigned = stored.durable_at,
                         .worker = names_[assigned->worker.value()],
                         .record = record.index,
                         .term = record.term.value()};
        current_[id.task] = id;
      }
    } else if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
      end_attempt(succeeded->task, stored.durable_at);
      succeeded_at_.try_emplace(succeeded->task, stored.durable_at);
      ended_at_.try_emplace(succeeded->task, stored.durable_at);
      if (const auto* report = std::get_if<fleet::ReportEnded>(&record.command)) {
        AttemptFacts& facts = attempts_[{succeeded->task, succeeded->attempt}];
        facts.succeeded = true;
        facts.result = report->outcome.result;
        results_[succeeded->task].emplace_back(stored.durable_at, facts.result);
      }
    } else if (const auto* expanded = std::get_if<fleet::StageExpanded>(&event)) {
      specs_[expanded->workflow].stages[expanded->stage].items = expanded->items;
      plans_[expanded->workflow].expand(expanded->stage, expanded->items.size());
    } else if (const auto* collapsed = std::get_if<fleet::StageCollapsed>(&event)) {
      specs_[collapsed->workflow].stages[collapsed->stage].items.clear();
      plans_[collapsed->workflow].collapse(collapsed->stage);
    } else if (const auto* forgotten = std::get_if<fleet::WorkflowForgotten>(&event)) {
      forgotten_.insert(forgotten->workflow);
    } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
      end_attempt(failed->task, stored.durable_at);
      ended_at_.try_emplace(failed->task, stored.durable_at);
    } else if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&event)) {
      end_attempt(cancelled->task, stored.durable_at);
      ended_at_.try_emplace(cancelled->task, stored.durable_at);
    } else if (const auto* skipped = std::get_if<fleet::TaskSkipped>(&event)) {
      succeeded_at_.try_emplace(skipped->task, stored.durable_at);
      results_[skipped->task].emplace_back(stored.durable_at, "");  // It has none now.
      ended_at_.try_emplace(skipped->task, stored.durable_at);
    } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
      if (requeued->reason != fleet::RequeueReason::kStickyWorkerBusy) end_attempt(requeued->task, stored.durable_at);
    }
  }
}

// Deciding again gives the same log, and the snapshot with the records after it gives the same state as all records.
void Judge::check_replay() {
  fleet::Brain brain;
  std::optional<fleet::Brain> from_snapshot;
  if (!witness_.snapshot.empty()) {
    Result<host::Recovered> decoded = host::decode_snapshot({witness_.snapshot_index, witness_.snapshot});
    if (!decoded.ok()) return broken("replay", "the snapshot: " + decoded.error().to_string());
    from_snapshot = std::move(decoded->brain);
  }
  for (const StoredRecord& stored : witness_.log) {
    brain.set_term(stored.record.term);
    if (const Result<void> same = brain.verify(stored.record); !same.ok()) {
      return broken("replay", same.error().to_string());
    }
    if (from_snapshot && stored.record.index > witness_.snapshot_index) {
      if (const Result<void> applied = from_snapshot->apply(stored.record); !applied.ok()) {
        return broken("replay", "after the snapshot: " + applied.error().to_string());
      }
    }
  }
  if (from_snapshot && !witness_.log.empty() && from_snapshot->hash() != brain.hash()) {
    broken("replay", "the snapshot and the records after it give another state than all records");
  }
}

void Judge::check_answers() {
  for (const auto& [key, workflows] : accepted_) {
    std::set<model::WorkflowId> told;
    for (const ClientAnswer& answer : witness_.answers) {
      if (answer.key != key || answer.code != ErrorCode::kOk) continue;
      for (const fleet::Event& event : answer.events) {
        if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) told.insert(accepted->workflow);
      }
    }
    std::erase_if(told, [&](model::WorkflowId id) { return forgotten_.contains(id); });
    if (told.size() > 1) broken("one_per_key", "a client was told twice that its key '" + key + "' is accepted");
  }
  for (const ClientAnswer& answer : witness_.answers) {
    if (answer.code == ErrorCode::kAlreadyExists && !answer.key.empty() && accepted_[answer.key].empty()) {
      broken("told", "the key '" + answer.key + "' was refused as known, and is not in the log");
    }
    if (answer.code != ErrorCode::kOk || answer.events.empty()) continue;
    // A record with exactly these events was durable when the client was told.
    const auto found = std::find_if(witness_.log.begin(), witness_.log.end(), [&](const StoredRecord& stored) {
      if (stored.durable_at > answer.at || stored.durable_at < answer.asked) return false;
      if (stored.record.command.index() != answer.command.index()) return false;
      return stored.record.events.size() == answer.events.size() &&
             std::equal(stored.record.events.begin(), stored.record.events.end(), answer.events.begin(),
                        [](const fleet::Event& a, const fleet::Event& b) { return a.index() == b.index(); });
    });
    if (found == witness_.log.end()) {
      broken("told", "a client was told at " + text_of(answer.at) + " of a decision that the log does not have");
    }
  }
}

// No attempt runs twice, and each starts after the success of what it needs was durable.
void Judge::check_executions() {
  std::map<AttemptId, const Execution*> first;
  for (const Execution& execution : witness_.executions) {
    std::vector<AttemptId> ids = execution.members;
    if (ids.empty()) ids.push_back(execution.id);
    for (const AttemptId& id : ids) {
      const auto [before, is_new] = first.try_emplace(id, &execution);
      if (!is_new) {
        broken("ran_once", text_of(id) + " ran on " + text_of(before->second->where) + " at " +
                               text_of(before->second->started) + " and on " + text_of(execution.where) + " at " +
                               text_of(execution.started));
      }
      const auto facts = attempts_.find(id);
      if (facts == attempts_.end() || facts->second.assigned > execution.started) {
        broken("recorded",
               text_of(id) + " ran at " + text_of(execution.started) + " before its assignment was durable");
        continue;
      }
      if (facts->second.worker != witness_.workers[execution.where.worker].name) {
        broken("recorded", text_of(id) + " ran on another worker than the log says");
      }
      const auto spec = specs_.find(id.task.workflow());
      if (spec == specs_.end()) continue;
      check_needs(id, execution, spec->second);
    }
  }
}

// What it needs had ended, and succeeded unless its stage waits for the end only. A retry may have run again what had
// ended; the first end counts. What it was given are the results in the log.
void Judge::check_needs(const AttemptId& id, const Execution& execution, const model::WorkflowSpec& spec) {
  const StagePlan& plan = plans_.at(id.task.workflow());
  const model::Stage& own = spec.stages[plan.stage_of(id.task.index())];
  const auto& done_at = own.waits_for_end() ? ended_at_ : succeeded_at_;
  for (const std::uint32_t need : own.needs) {
    if (spec.stages[need].fan_out) continue;  // Its tasks may have been others then; the rules of the log check it.
    std::string_view given;
    if (execution.members.empty() && model::json_validate(execution.inputs).ok()) {
      given = model::json_member(execution.inputs, "up" + std::to_string(need));
    }
    for (const std::uint32_t t : plan.needed(spec, id.task.index(), need)) {
      const TaskId needed(id.task.workflow(), t);
      const auto done = done_at.find(needed);
      if (done == done_at.end() || done->second > execution.started) {
        broken("dependencies", text_of(id) + " started at " + text_of(execution.started) + " before " +
                                   needed.to_string() + " had durably " +
                                   (own.waits_for_end() ? "ended" : "succeeded"));
      }
      const auto& results = results_[needed];
      if (given.data() == nullptr || results.empty()) continue;
      if (std::none_of(results.begin(), results.end(), [&](const auto& result) {
            return result.first <= execution.started && given.find(result.second) != std::string_view::npos;
          })) {
        broken("results", text_of(id) + " was given another result of " + needed.to_string() + " than the log has");
      }
    }
  }
}

// A result in the log is what an execution of that attempt returned.
void Judge::check_results() {
  std::map<AttemptId, std::set<std::string>> returned;
  for (const Execution& execution : witness_.executions) {
    if (execution.end != ExecutionEnd::kSucceeded) continue;
    if (execution.members.empty()) {
      returned[execution.id].insert(execution.result);
      continue;
    }
    const auto values = model::json_elements(execution.result);
    for (std::size_t i = 0; i < execution.members.size() && i < values.size(); ++i) {
      returned[execution.members[i]].insert(std::string(values[i]));
    }
  }
  for (const auto& [id, facts] : attempts_) {
    if (facts.succeeded && !returned[id].contains(facts.result)) {
      broken("results", "the log has a success of " + text_of(id) + " that no worker returned");
    }
  }
}

// Sweeps over the starts and ends of each worker life.
void Judge::check_resources() {
  std::map<WorkerLifeId, std::vector<const Execution*>> by_life;
  for (const Execution& execution : witness_.executions) by_life[execution.where].push_back(&execution);
  for (const auto& [where, executions] : by_life) {
    const model::Resources& have = witness_.workers[where.worker].resources;
    struct Change {
      nanoseconds at;
      bool starts;
      const Execution* execution;
    };
    std::vector<Change> changes;
    for (const Execution* execution : executions) {
      changes.push_back({execution->started, true, execution});
      if (execution->end != ExecutionEnd::kRuns) changes.push_back({execution->ended, false, execution});
    }
    // Ends before starts: what ends at an instant has made room at that instant. One that takes no time counts as over.
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.starts < b.starts; });
    std::int64_t cpu = 0;
    std::int64_t memory = 0;
    model::DeviceSet devices = 0;
    for (const Change& change : changes) {
      const model::ResourceUse& held = change.execution->held;
      if (change.starts && !round_robin_ && std::popcount(held.devices) != held.gpus) {
        broken("resources",
               text_of(change.execution->id) + " ran without the devices that it needs on " + text_of(where));
      }
      const bool momentary =
          change.execution->end != ExecutionEnd::kRuns && change.execution->started == change.execution->ended;
      if (momentary) continue;
      cpu += change.starts ? held.cpu_millis : -held.cpu_millis;
      memory += change.starts ? held.memory_bytes : -held.memory_bytes;
      if (change.starts && (devices & held.devices) != 0) {
        broken("resources", text_of(change.execution->id) + " uses a device of another task on " + text_of(where));
      }
      devices = change.starts ? devices | held.devices : devices & ~held.devices;
      if (cpu > have.cpu_millis || memory > have.memory_bytes) {
        broken("resources", text_of(where) + " ran more than it has at " + text_of(change.at));
        break;
      }
    }
  }
}

// Every message has its record; nothing of an older term has an effect after a newer one was heard.
void Judge::check_deliveries() {
  std::map<WorkerLifeId, std::uint64_t> newest;
  std::map<std::pair<WorkerLifeId, AttemptId>, nanoseconds> valid;  // The first assignment with a term that counts.
  for (const Delivery& delivery : witness_.deliveries) {
    const std::string& name = witness_.workers[delivery.where.worker].name;
    const std::uint64_t term = std::visit([](const auto& message) { return message.term.value(); }, delivery.message);
    const bool old = term < newest[delivery.where];
    newest[delivery.where] = std::max(newest[delivery.where], term);
    if (const auto* assign = std::get_if<model::Assign>(&delivery.message)) {
      const auto facts = attempts_.find(assign->id);
      if (facts == attempts_.end() || facts->second.assigned > delivery.at || facts->second.worker != name) {
        broken("recorded", "worker " + name + " was told to run " + text_of(assign->id) + " at " +
                               text_of(delivery.at) + ", which was not durable");
      }
      if (!old) valid.try_emplace({delivery.where, assign->id}, delivery.at);
    } else if (const auto* acknowledge = std::get_if<model::AcknowledgeReport>(&delivery.message)) {
      const auto facts = attempts_.find(acknowledge->id);
      if (facts == attempts_.end() || facts->second.over.count() < 0 || facts->second.over > delivery.at) {
        broken("recorded", "worker " + name + " was told at " + text_of(delivery.at) + " that the end of " +
                               text_of(acknowledge->id) + " is recorded, which is not in the log");
      }
    }
  }
  for (const Execution& execution : witness_.executions) {
    const auto found = valid.find({execution.where, execution.id});
    if (found == valid.end() || found->second > execution.started) {
      broken("terms",
             text_of(execution.id) + " ran on " + text_of(execution.where) + " because of a message of an older term");
    }
  }
}

// A host sends its own assignments to a worker in the order in which it decided them.
void Judge::check_order() {
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> last;  // The record, by worker and term.
  for (const AssignmentSent& sent : witness_.assignments) {
    const auto facts = attempts_.find(sent.id);
    if (facts == attempts_.end() || facts->second.term != sent.term || sent.has_devices) continue;
    std::uint64_t& before = last[{sent.worker, sent.term}];
    if (facts->second.record < before) {
      broken("order", "worker " + sent.worker + " was sent " + text_of(sent.id) + ", which record " +
                          std::to_string(facts->second.record) + " assigned, after what record " +
                          std::to_string(before) + " assigned");
    }
    before = std::max(before, facts->second.record);
  }
}

// A host acknowledges a message to the bus when its decision is durable, and it acknowledges each of them.
void Judge::check_acknowledged() {
  for (const FinalReportSeen& report : witness_.acknowledged) {
    const auto facts = attempts_.find(report.id);
    if (facts == attempts_.end() || facts->second.over.count() < 0 || facts->second.over > report.at) {
      broken("acknowledged", "the host acknowledged the report of " + text_of(report.id) + " to the bus at " +
                                 text_of(report.at) + ", before the end of that attempt was durable");
    }
  }
  if (witness_.all_ended && !witness_.never_acknowledged.empty()) {
    broken("acknowledged", "the host never acknowledged " + witness_.never_acknowledged.front());
  }
}

// The first worker lives after the faults, and its heartbeats arrive: no host gives it up. A late copy of a
// registration of an earlier life may still displace it, until a TTL has passed.
void Judge::check_given_up() {
  const nanoseconds heard =
      std::max({witness_.faults_ended, witness_.late_registration, witness_.host_started}) + 2 * witness_.heartbeat;
  for (const StoredRecord& stored : witness_.log) {
    const auto* lost = std::get_if<fleet::WorkerLost>(&stored.record.command);
    if (lost == nullptr || lost->worker != witness_.workers.front().name) continue;
    // A worker that was displaced seems to live as long as it reports about tasks.
    const bool reported = witness_.late_registration.count() > 0 &&
                          std::any_of(witness_.executions.begin(), witness_.executions.end(),
                                      [&](const auto& each) { return each.where.worker == 0 && each.ended > heard; });
    if (reported) continue;
    if (stored.durable_at > heard + witness_.heartbeat_ttl + witness_.settle + kAcknowledgedWithin) {
      broken("liveness", "worker " + lost->worker + " lives, and is given up at " + text_of(stored.durable_at));
    }
  }
}

// What runs although its attempt no longer counts is stopped: a worker that was given up is asked what it runs as soon
// as it is heard again, and told to stop what is not wanted. It may take two heartbeats. An assignment that arrives
// only after its attempt was given up may miss that question; it is stopped when its worker reports that it has
// started. A worker that a late copy of a registration of an earlier life has displaced is asked after a TTL.
void Judge::check_stale() {
  nanoseconds all_heard = std::max(witness_.faults_ended, witness_.host_started);
  if (witness_.late_registration.count() > 0) {
    all_heard =
        std::max(all_heard, std::max(witness_.late_registration, witness_.host_started) + witness_.heartbeat_ttl);
  }
  for (const Execution& execution : witness_.executions) {
    std::vector<AttemptId> ids = execution.members;
    if (ids.empty()) ids.push_back(execution.id);
    nanoseconds over = std::max(all_heard, execution.started);
    bool counts = false;
    for (const AttemptId& id : ids) {
      const auto facts = attempts_.find(id);
      counts = counts || facts == attempts_.end() || facts->second.over.count() < 0;
      if (facts != attempts_.end()) over = std::max(over, facts->second.over);
    }
    const nanoseconds ended = execution.end == ExecutionEnd::kRuns ? witness_.ended : execution.ended;
    if (counts || ended <= over + 2 * witness_.heartbeat + witness_.settle + kAcknowledgedWithin) continue;
    return broken("stale", text_of(execution.id) + " ran on " + text_of(execution.where) + " until " + text_of(ended) +
                               ", and no longer counted from " + text_of(over) + " on");
  }
}

// A worker says that it has started an attempt that no longer counted: the host, if it lives on, tells it to stop.
// Unless it has given the worker a newer attempt of the same task: that one stops the older.
void Judge::check_late_starts() {
  for (const StartSeen& start : witness_.starts) {
    if (start.host_life != witness_.host_lives || witness_.told_to_stop.contains({start.worker, start.id})) continue;
    const auto execution =
        std::find_if(witness_.executions.begin(), witness_.executions.end(), [&](const Execution& each) {
          return each.id == start.id && witness_.workers[each.where.worker].name == start.worker;
        });
    if (execution == witness_.executions.end() || execution->end == ExecutionEnd::kKilled) continue;
    const nanoseconds ended = execution->end == ExecutionEnd::kRuns ? witness_.ended : execution->ended;
    if (ended <= start.at + 2 * witness_.heartbeat + kAcknowledgedWithin) continue;
    std::vector<AttemptId> ids = execution->members;
    if (ids.empty()) ids.push_back(execution->id);
    const bool counts = std::any_of(ids.begin(), ids.end(), [&](const AttemptId& id) {
      const auto facts = attempts_.find(id);
      return facts == attempts_.end() || facts->second.over.count() < 0 || facts->second.over >= start.at;
    });
    const bool replaced = std::any_of(attempts_.begin(), attempts_.end(), [&](const auto& each) {
      return each.first.task == start.id.task && each.first.attempt > start.id.attempt &&
             each.second.worker == start.worker;
    });
    if (counts || replaced) continue;
    return broken("stale", "worker " + start.worker + " said at " + text_of(start.at) + " that it runs " +
                               text_of(start.id) + ", which no longer counted, and was never told to stop it");
  }
}

// A worker keeps the final report of an attempt until the host says that it is recorded, and says so again until then.
void Judge::check_reports() {
  if (!witness_.all_ended) return;
  std::set<std::pair<WorkerLifeId, AttemptId>> acknowledged;
  std::map<std::pair<WorkerLifeId, TaskId>, std::uint32_t> newest;  // Attempts; the host does not need older ones.
  for (const Delivery& delivery : witness_.deliveries) {
    if (const auto* done = std::get_if<model::AcknowledgeReport>(&delivery.message)) {
      acknowledged.emplace(delivery.where, done->id);
    } else if (const auto* assign = std::get_if<model::Assign>(&delivery.message)) {
      std::vector<AttemptId> ids{assign->id};
      for (const model::MergedTask& member : assign->merged) ids.push_back(member.id);
      for (const AttemptId& id : ids) {
        std::uint32_t& attempt = newest[{delivery.where, id.task}];
        attempt = std::max(attempt, static_cast<std::uint32_t>(id.attempt.value()));
      }
    }
  }
  for (const Execution& execution : witness_.executions) {
    if (execution.end == ExecutionEnd::kRuns || execution.ended > witness_.all_ended_at) continue;
    if (std::find(witness_.alive.begin(), witness_.alive.end(), execution.where) == witness_.alive.end()) continue;
    std::vector<AttemptId> ids = execution.members;
    if (ids.empty()) ids.push_back(execution.id);
    for (const AttemptId& id : ids) {
      if (newest[{execution.where, id.task}] > id.attempt.value() || acknowledged.contains({execution.where, id})) {
        continue;
      }
      return broken("reports",
                    text_of(execution.where) + " was never told that the end of " + text_of(id) + " is recorded");
    }
  }
}

void Judge::check_reads() {
  for (const ClientRead& read : witness_.reads) {
    if (read.got < read.wanted) {
      broken("reads", "a reader that knew record " + std::to_string(read.wanted) + " was shown record " +
                          std::to_string(read.got));
    }
  }
}

// Once everything has ended, no final report is sent any more: each was acknowledged.
void Judge::check_quiet() {
  if (!witness_.all_ended) return;
  std::map<AttemptId, int> seen;
  for (const FinalReportSeen& report : witness_.final_reports) {
    if (report.at < witness_.all_ended_at + witness_.settle + kAcknowledgedWithin || ++seen[report.id] < 2) continue;
    return broken("liveness", "the report of " + text_of(report.id) + " is still being sent at " + text_of(report.at));
  }
}

}  // namespace

std::vector<Violation> check(const Witness& witness) { return Judge(witness).run(); }

}  // namespace rota::sim
