// Explains tasks that wait for other stages, run, or have ended. explain_ready.cc explains those that are ready.
#include "fleet/explain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_text.h"
#include "fleet/brain.h"
#include "fleet/explain_parts.h"
#include "fleet/explain_words.h"

namespace rota::fleet {

namespace {

constexpr std::size_t kMostNamed = 4;  // Of the stages that a sentence lists; the facts have all.

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

// The worker's name, or null if neither the state nor the log that was read has it.
const std::string* find_name(WorkerId id, const State& state, const WorkerNames& names) {
  if (const Worker* worker = state.find(id); worker != nullptr) return &worker->spec.name;
  const auto found = names.find(id);
  return found == names.end() ? nullptr : &found->second;
}

}  // namespace

Explainer::Explainer(const State& state, TaskId task, const TaskAssigned* assigned, std::int64_t now_ns,
                     const WorkerNames& names)
    : state_(state),
      workflow_(state.at(task.workflow())),
      task_(workflow_.tasks[task.index()]),
      use_(workflow_.template_of(task_)),
      assigned_(assigned),
      now_ns_(now_ns),
      names_(names) {
  out_.task = task;
  out_.name = workflow_.name_of(task_);
  out_.workflow = workflow_.spec.name;
  out_.state = task_.state;
  out_.at_ns = now_ns;
}

void Explainer::because(ExplainReason reason, std::string words) {
  out_.reason = reason;
  out_.sentence = out_.task.to_string() + " (" + printable(out_.name) + ") " + std::move(words);
}

void Explainer::fact(std::string_view key, std::int64_t value) {
  out_.facts.push_back({std::string(key), std::to_string(value), false});
}

void Explainer::fact(std::string_view key, std::string_view text) {
  out_.facts.push_back({std::string(key), std::string(text), true});
}

std::string Explainer::worker_name(WorkerId id) const {
  const std::string* name = find_name(id, state_, names_);
  return name == nullptr ? id.to_string() + ", which is forgotten," : quoted(*name);
}

Explanation Explainer::run() && {
  switch (task_.state) {
    case TaskState::kQueued:
      queued();
      break;
    case TaskState::kReady:
      ready();
      break;
    case TaskState::kPaused:
      paused();
      break;
    case TaskState::kRunning:
      running();
      break;
    case TaskState::kSucceeded:
      succeeded();
      break;
    case TaskState::kFailed:
      failed();
      break;
    case TaskState::kCancelled:
      cancelled();
      break;
  }
  also(".");
  return std::move(out_);
}

// "prep (running on 'w1')"; "prep (of 10 tasks 3 succeeded, 2 run)"
std::string Explainer::stage_progress(std::uint32_t stage) const {
  const StageState& range = workflow_.stages[stage];
  std::string text = printable(workflow_.spec.stages[stage].name) + " (";
  if (range.count == 1) {
    const Task& task = workflow_.tasks[range.first];
    text += lower(task.state);
    if (task.state == TaskState::kRunning) text += " on " + worker_name(task.worker);
    return text + ")";
  }
  std::array<std::uint32_t, graph::kTaskStateCount> counts{};
  for (const std::uint32_t t : range.tasks()) {
    ++counts[static_cast<std::size_t>(workflow_.tasks[t].state)];
  }
  text += "of " + counted(range.count, "task") + ":";
  bool first = true;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] == 0) continue;
    text += (first ? " " : ", ") + std::to_string(counts[s]) + " ";
    text += lower(static_cast<TaskState>(s));
    first = false;
  }
  return text + ")";
}

void Explainer::queued() {
  if (task_.due_ns() > 0) {
    const std::int64_t left = task_.due_ns() - now_ns_;
    because(ExplainReason::kBackoff,
            "waits for the time of its next attempt, " +
                (left > 0 ? "in " + span_of(left) : std::string("which has come: the next tick readies it")));
    also("; attempt " + task_.attempt.to_string() + " on " + worker_name(task_.worker) + " failed");
    if (task_.extra != nullptr && !task_.extra->message.empty()) also(": " + printable(task_.extra->message, 200));
    fact("until_ns", task_.due_ns());
    fact("spent", task_.spent);
    fact("max_attempts", use_.retry.max_attempts);
    if (task_.extra != nullptr) fact("failure", task_.extra->message);
    return;
  }
  std::vector<std::uint32_t> open;
  const Stage& stage = workflow_.spec.stages[task_.stage];
  for (const graph::TaskRef parent : workflow_.dag.parents(graph::TaskRef(task_.stage + 1))) {
    const StageState& before = workflow_.stages[parent.value() - 1];
    if (workflow_.link_of(task_.stage, parent.value() - 1) != nullptr) continue;
    if ((stage.waits_for_end() ? before.open : before.unfinished) > 0) open.push_back(parent.value() - 1);
  }
  if (stage.finally && workflow_.main.open > 0) {
    because(ExplainReason::kNeeds, "is in finally and waits for the end of all other stages: " +
                                       counted(workflow_.main.open, "task") + " have not ended");
    fact("needs", counted(workflow_.main.open, "task") + " of other stages");
    return;
  }
  std::sort(open.begin(), open.end());
  if (open.empty() && workflow_.waits_for_items(task_)) return waits_for_items();
  if (const auto slots = workflow_.slots.find(task_.stage);
      open.empty() && slots != workflow_.slots.end() && slots->second.held.contains(out_.task.index())) {
    because(ExplainReason::kParallel,
            "waits for another task of its stage to end: " + std::to_string(slots->second.used) +
                " of them are ready or run, and parallel is " + std::to_string(stage.parallel));
    fact("parallel", stage.parallel);
    return;
  }
  if (open.empty()) {
    because(ExplainReason::kTurn,
            "has all that it needs; its condition and references are looked at with the next decision");
    return;
  }
  because(ExplainReason::kNeeds, "waits for " + counted(static_cast<std::int64_t>(open.size()), "stage") + " that " +
                                     (open.size() == 1 ? "has" : "have") +
                                     (stage.waits_for_end() ? " not ended: " : " not succeeded: "));
  const std::size_t named = std::min(open.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) {
    append_listed(out_.sentence, stage_progress(open[i]), i == 0, i + 1 == open.size());
  }
  if (open.size() > named) also(" and " + std::to_string(open.size() - named) + " more");
  for (const std::uint32_t each : open) fact("needs", stage_progress(each));
}

void Explainer::waits_for_items() {
  std::vector<std::string> open;
  const std::uint32_t number = workflow_.stages[task_.stage].number(out_.task.index());
  for (const ItemLink& link : workflow_.links) {
    if (link.child != task_.stage) continue;
    if (!link.resolved) {
      open.push_back(stage_progress(link.parent) + ", whose tasks are not known yet");
      continue;
    }
    if (link.child_group[number] == ItemLink::kNoGroup) continue;
    for (const std::uint32_t i : link.groups[link.child_group[number]].parents) {
      const Task& task = workflow_.tasks[workflow_.stages[link.parent].task(i)];
      if (task.state != TaskState::kSucceeded) open.push_back(workflow_.name_of(task) + " (" + lower(task.state) + ")");
    }
  }
  because(ExplainReason::kNeeds,
          "waits for " + counted(static_cast<std::int64_t>(open.size()), "task") + " with the same values: ");
  const std::size_t named = std::min(open.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) append_listed(out_.sentence, open[i], i == 0, i + 1 == open.size());
  if (open.size() > named) also(" and " + std::to_string(open.size() - named) + " more");
  for (const std::string& each : open) fact("needs", each);
}

void Explainer::paused() {
  const bool ran = task_.paused_from == TaskState::kRunning;
  because(ExplainReason::kPaused, "is paused until it is resumed; it was " + lower(task_.paused_from) + " before" +
                                      (ran ? " and keeps what it holds on " + worker_name(task_.worker) : ""));
  fact("paused_from", graph::to_string(task_.paused_from));
  if (ran) placement();
}

void Explainer::running() {
  const std::string where = worker_name(task_.worker);
  const std::string since = span_of(std::max<std::int64_t>(now_ns_ - task_.assigned_ns, 0));
  if (task_.stopping) {
    std::string why;
    switch (task_.stop) {
      case StopReason::kCancel:
        why = "it was cancelled";
        break;
      case StopReason::kPreempt:
        why = "one of higher priority needs its place";
        break;
      case StopReason::kRecall:
        why = "one that is ahead of it waits";
        break;
      case StopReason::kGang:
        why = "another of its gang stopped";
        break;
    }
    because(ExplainReason::kStopping,
            "was told to stop because " + why + "; " + where + " has not said yet that it has");
    fact("stop", to_string(task_.stop));
  } else if (task_.at_worker) {
    because(ExplainReason::kQueuedAtWorker,
            "was sent to " + where + " " + since + " ago and waits there for what runs before it" +
                (task_.recalled() ? "; it was recalled for a task that is ahead of it" : ""));
  } else {
    because(ExplainReason::kRunning, "runs on " + where + ", sent there " + since + " ago");
  }
  placement();
}

void Explainer::placement() {
  const std::string* name = find_name(task_.worker, state_, names_);
  fact("worker", name == nullptr ? task_.worker.to_string() : *name);
  fact("attempt", task_.attempt.value());
  fact("assigned_ns", task_.assigned_ns);
  fact("assigned_in", static_cast<std::int64_t>(task_.assigned_in));
  if (assigned_ == nullptr) return;
  if (assigned_->task != out_.task) fact("merged_with", assigned_->task.to_string());
  const Reasoning& why = assigned_->reasoning;
  also("; " + explain_assignment(*assigned_, state_, names_));
  fact("why", to_string(why.why));
  fact("candidates", why.candidates);
  if (why.why == Why::kScore) {
    fact("lambda_billionths", why.lambda);
    fact("throughput_billionths", why.throughput);
    fact("cost_billionths", why.cost);
    fact("jitter_billionths", why.jitter);
    fact("score_billionths", why.score);
  }
  if (why.why == Why::kLeastLoaded) fact("queue_depth", why.queue_depth);
  if (why.why == Why::kResourceFit) {
    fact("available_cpu_millis", why.available);
    fact("required_cpu_millis", why.required);
  }
  if (why.why == Why::kAffinity) fact("affinity", to_string(why.affinity));
  if (why.reuse_hits > 0) fact("reuse_hits", why.reuse_hits);
}

void Explainer::succeeded() {
  if (workflow_.is_withdrawn(task_)) {
    because(ExplainReason::kSkipped,
            "was withdrawn: what its stage comes after was retried, and the items of the stage were determined again");
    return;
  }
  if (task_.skipped && !workflow_.applies(task_.stage)) {
    const Stage& stage = workflow_.spec.stages[task_.stage];
    because(ExplainReason::kSkipped, "was skipped: it runs on " + std::string(to_string(stage.when)) + ", and " +
                                         (stage.finally ? "the workflow " : "what it needs ") +
                                         (stage.when == When::kSuccess ? "did not succeed" : "succeeded"));
    fact("when", to_string(stage.when));
    return;
  }
  const std::uint32_t number = workflow_.stages[task_.stage].number(out_.task.index());
  if (task_.skipped && workflow_.spec.stages[task_.stage].leaves_out(number)) {
    because(ExplainReason::kSkipped, "was skipped: it was left out of this run");
    return;
  }
  if (task_.skipped && workflow_.is_placeholder(task_)) {
    because(ExplainReason::kSkipped, use_.condition.empty()
                                         ? "was skipped: the matrix of its stage has no items"
                                         : "was skipped: the matrix of its stage has no items, or its condition does "
                                           "not hold: " +
                                               printable(use_.condition, 200));
    return;
  }
  if (task_.skipped) {
    because(ExplainReason::kSkipped, "was skipped: its condition does not hold: " + printable(use_.condition, 200));
    fact("condition", use_.condition);
    return;
  }
  const std::int64_t took = task_.ended_ns - (task_.started_ns > 0 ? task_.started_ns : task_.assigned_ns);
  if (task_.extra != nullptr && task_.extra->reused) {
    because(ExplainReason::kSucceeded, "was not run: " + printable(task_.extra->cache_note, 1000));
    out_.facts.push_back({"cached", "true", false});
    fact("cache", task_.extra->cache_note);
    fact("took_ns", took);
    placement();
    return;
  }
  because(ExplainReason::kSucceeded, "succeeded on " + worker_name(task_.worker) + " in attempt " +
                                         task_.attempt.to_string() + ", which took " + span_of(took));
  cache_note();
  if (task_.extra != nullptr && !task_.extra->outputs.empty()) {
    std::int64_t bytes = 0;
    for (const model::StoredFile& file : task_.extra->outputs) bytes += file.bytes;
    also("; it stored " + counted(task_.extra->outputs.size(), "file") + " with " + std::to_string(bytes) + " bytes");
    fact("stored_bytes", bytes);
    for (const model::StoredFile& file : task_.extra->outputs) fact("output", file.path + " " + file.sha256);
  }
  fact("took_ns", took);
  placement();
}

void Explainer::cache_note() {
  if (task_.extra == nullptr || task_.extra->cache_note.empty()) return;
  also("; " + printable(task_.extra->cache_note, 1000));
  fact("cache", task_.extra->cache_note);
}

void Explainer::failed() {
  const bool ran = !task_.attempt.is_none();
  const TaskExtra none;
  const TaskExtra& extra = task_.extra == nullptr ? none : *task_.extra;
  because(ExplainReason::kFailed, "failed (" + std::string(to_string(extra.kind)) + ")");
  if (ran) also(" after " + counted(task_.attempt.value(), "attempt") + ", the last on " + worker_name(task_.worker));
  if (!extra.message.empty()) also(": " + printable(extra.message, 200));
  fact("kind", to_string(extra.kind));
  fact("message", extra.message);
  cache_note();
  fact("ended_ns", task_.ended_ns);
  for (const WorkerId id : extra.failed_on) fact("failed_on", worker_name(id));
  if (ran) placement();
}

void Explainer::cancelled() {
  const TaskId root = task_.extra == nullptr ? TaskId() : task_.extra->root;
  fact("ended_ns", task_.ended_ns);
  if (root.is_none()) {
    const StopCause stopped = workflow_.stopped;
    because(ExplainReason::kCancelled,
            stopped == StopCause::kDeadline   ? "was cancelled because the deadline of the workflow had passed"
            : stopped == StopCause::kFailFast ? "was cancelled because another task had failed (fail_fast)"
                                              : "was cancelled by hand");
    if (stopped != StopCause::kNone) fact("stopped", to_string(stopped));
    return;
  }
  const Task& other = workflow_.tasks[root.index()];
  const std::string name = printable(workflow_.name_of(other));
  because(ExplainReason::kCancelled, "was cancelled because of " + root.to_string() + " (" + name + "), which ");
  fact("root", root.to_string());
  fact("root_name", name);
  fact("root_state", graph::to_string(other.state));
  if (other.state == TaskState::kFailed && other.extra != nullptr) {
    also("failed (" + std::string(to_string(other.extra->kind)) + "): " + printable(other.extra->message, 200));
    fact("root_message", other.extra->message);
  } else {
    also("is " + lower(other.state));
  }
}

std::string explain_assignment(const TaskAssigned& assigned, const State& state, const WorkerNames& names) {
  const Reasoning& why = assigned.reasoning;
  const std::string* name = find_name(assigned.worker, state, names);
  std::string text = "worker " + (name == nullptr ? assigned.worker.to_string() : quoted(*name)) + ": ";
  const std::string of = " of " + std::to_string(why.candidates);
  switch (why.why) {
    case Why::kOnlyWorkerAvailable:
      text += assigned.queued ? "the only one with room in its queue" : "the only one that could start it then";
      break;
    case Why::kLeastLoaded:
      text += "the least loaded" + of + ", with " + counted(why.queue_depth, "task");
      break;
    case Why::kResourceFit:
      text += "the smallest" + of + " that satisfies it, with " + decimal(why.available, 1000) + " cores free where " +
              decimal(why.required, 1000) + " are required";
      break;
    case Why::kAffinity:
      text += why.affinity == Affinity::kDataLocality         ? "it has what the task uses"
              : why.affinity == Affinity::kPreviouslyExecuted ? "what it needs ran there"
              : why.affinity == Affinity::kSameZone           ? "it is in the zone where what it needs ran"
                                                              : "it is near what it needs";
      text += " (chosen" + of + ")";
      break;
    case Why::kScore:
      text += "the best score" + of + ": " + decimal(why.lambda, kOne) + " * throughput " +
              decimal(why.throughput, kOne) + " - " + decimal(kOne - why.lambda, kOne) + " * cost " +
              decimal(why.cost, kOne) + " + jitter " + decimal(why.jitter, kOne) + " = " + decimal(why.score, kOne);
      break;
    case Why::kSticky:
      text += "the weights of its parent are there";
      break;
    case Why::kPinned:
      text += "it is bound there, by its stage or by the dispatch mode";
      break;
    case Why::kFirstFit:
      text += "the first" + of + " that could take it";
      break;
    case Why::kRoundRobin:
      text += "the next in turn" + of;
      break;
    case Why::kRandom:
      text += "drawn from" + of.substr(3) + " by the task's number";
      break;
    case Why::kCustom:
      text += "chosen" + of + " by the selection of this program";
      break;
    case Why::kFinish:
      text += "the one" + of + " that is expected to finish it first";
      break;
  }
  if (why.run_ms > 0) text += "; it is expected to run for " + span_of(why.run_ms * graph::kNsPerMs) + " there";
  if (why.path_ms > 0)
    text += "; " + span_of(why.path_ms * graph::kNsPerMs) + " remain on its path to the end of the workflow";
  if (why.reuse_hits > 0) text += "; " + counted(why.reuse_hits, "item") + " of its context were there already";
  if (!assigned.members.empty()) {
    text += "; " + counted(static_cast<std::int64_t>(assigned.members.size()), "other") + " ran with it, merged";
  }
  return text;
}

const TaskAssigned* find_assignment(const Record& record, TaskId task) {
  for (const Event& event : record.events) {
    const auto* assigned = std::get_if<TaskAssigned>(&event);
    if (assigned == nullptr) continue;
    const auto is_it = [&](const AttemptId& member) { return member.task == task; };
    if (assigned->task == task || std::any_of(assigned->members.begin(), assigned->members.end(), is_it)) {
      return assigned;
    }
  }
  return nullptr;
}

void note_workers(const Record& record, const State& state, WorkerNames& names) {
  for (const Event& event : record.events) {
    const auto* registered = std::get_if<WorkerRegistered>(&event);
    const Worker* worker = registered == nullptr ? nullptr : state.find(registered->worker);
    if (worker != nullptr) names[worker->id] = worker->spec.name;
  }
}

Result<Explanation> explain(const State& state, TaskId task, const TaskAssigned* assigned, std::int64_t now_ns,
                            const WorkerNames& names) {
  if (state.find(task) == nullptr) {
    return Error{ErrorCode::kNotFound, "there is no task " + task.to_string() +
                                           (state.find(task.workflow()) == nullptr ? ", nor a workflow " : " in ") +
                                           task.workflow().to_string()};
  }
  return Explainer(state, task, assigned, std::max(now_ns, state.globals().now_ns), names).run();
}

Result<Explanation> explain_at(std::span<const Record> records, TaskId task, std::int64_t at_ns) {
  Brain brain;
  std::size_t used = 0;
  WorkerNames names;
  while (used < records.size() && records[used].wall_ns <= at_ns) {
    ROTA_TRY(brain.apply(records[used]));
    note_workers(records[used++], brain.state(), names);
  }
  const TaskAssigned* assigned = nullptr;
  if (const Task* found = brain.state().find(task); found != nullptr && found->assigned_in > 0) {
    for (std::size_t i = used; i > 0; --i) {
      if (records[i - 1].index == found->assigned_in) assigned = find_assignment(records[i - 1], task);
      if (records[i - 1].index <= found->assigned_in) break;
    }
  }
  return explain(brain.state(), task, assigned, at_ns, names);
}

}  // namespace rota::fleet
