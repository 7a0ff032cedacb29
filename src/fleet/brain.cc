#include "fleet/brain.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "fleet/codec.h"
#include "fleet/decide.h"
#include "fleet/text.h"

namespace rota::fleet {

namespace {
constexpr std::string_view kSnapshotMagic = "rota state 5\n";

// What is wrong with bytes that do not begin with kSnapshotMagic.
Error not_a_snapshot(std::string_view bytes) {
  constexpr std::string_view kAnyFormat = "rota state ";
  if (!bytes.starts_with(kAnyFormat)) return Error{ErrorCode::kCorrupt, "this is not a snapshot of a fleet's state"};
  const auto format = [&](std::string_view magic) {
    const std::string_view rest = magic.substr(kAnyFormat.size());
    return printable(rest.substr(0, rest.find('\n')), 20);
  };
  return Error{ErrorCode::kUnsupported,
               "the snapshot has format " + format(bytes) + "; this program reads format " + format(kSnapshotMagic) +
                   ". Use the release of rota that wrote it, or start with a new state folder"};
}

// The record without which the command would not have been given; 0 if there is none, or it is not known.
class ParentOf {
 public:
  explicit ParentOf(const State& state) : state_(state) {}

  std::uint64_t operator()(const DrainWorker& command) const { return of_worker(command.worker); }
  std::uint64_t operator()(const WorkerLost& command) const { return of_worker(command.worker); }
  std::uint64_t operator()(const SetWorkerEnabled& command) const { return of_worker(command.worker); }
  std::uint64_t operator()(const ReportCaches& command) const { return of_worker(command.worker); }
  std::uint64_t operator()(const RegisterWorker& command) const { return of_worker(command.worker.name); }
  std::uint64_t operator()(const Control& command) const { return of_workflow(command.workflow, command.task); }
  std::uint64_t operator()(const SetPriority& command) const { return of_workflow(command.workflow, command.task); }
  std::uint64_t operator()(const ForgetWorkflow& command) const { return of_workflow(command.workflow, TaskId()); }
  std::uint64_t operator()(const ReportEnded& command) const { return of_attempt(command.task); }
  std::uint64_t operator()(const ReportCheckpoint& command) const { return of_attempt(command.task); }
  std::uint64_t operator()(const ReportUndeliverable& command) const { return of_attempt(command.task); }
  std::uint64_t operator()(const SetPolicy&) const { return 0; }
  std::uint64_t operator()(const Tick&) const { return 0; }
  std::uint64_t operator()(const Heartbeats&) const { return 0; }
  std::uint64_t operator()(const SubmitWorkflow&) const { return 0; }
  std::uint64_t operator()(const SetQuota&) const { return 0; }
  std::uint64_t operator()(const SetSchedule&) const { return 0; }
  std::uint64_t operator()(const ChangeSchedule&) const { return 0; }

 private:
  [[nodiscard]] std::uint64_t of_worker(std::string_view name) const {
    const Worker* worker = state_.find_worker(name);
    return worker == nullptr ? 0 : worker->registered_in;
  }
  [[nodiscard]] std::uint64_t of_workflow(WorkflowId id, TaskId task) const {
    const Workflow* workflow = state_.find(task.is_none() ? id : task.workflow());
    return workflow == nullptr ? 0 : workflow->accepted_in;
  }
  [[nodiscard]] std::uint64_t of_attempt(TaskId id) const {
    const Task* task = state_.find(id);
    return task == nullptr ? 0 : task->assigned_in;
  }

  const State& state_;
};
}  // namespace

Result<Record> Brain::execute(Command command, std::int64_t wall_ns) {
  Record record;
  ROTA_TRY(execute(std::move(command), wall_ns, record));
  return record;
}

Result<void> Brain::execute(Command&& command, std::int64_t wall_ns, Record& record) {
  const Globals& globals = state_.globals();
  seen_ns_ = std::max({seen_ns_, wall_ns, globals.now_ns});
  record.index = globals.index + 1;
  record.term = term_;
  record.wall_ns = seen_ns_;
  record.logical = next_logical(globals.logical, seen_ns_);
  record.command = std::move(command);
  record.events.clear();
  record.prior = hash_;
  record.parent = std::visit(ParentOf(state_), record.command);
  const std::uint64_t index = globals.index;
  const std::int64_t logical = globals.logical;
  const std::int64_t now_ns = globals.now_ns;
  state_.begin(record.index, record.logical, record.wall_ns, record.command);
  Decision decision(state_, record.command, record.events);
  Result<void> result = decision.run();
  if (result.ok() && !record.events.empty()) decision.settle();
  if (record.events.empty()) {
    state_.forget_record(index, logical, now_ns);
    record.index = 0;
    record.post = record.prior;
    return result;
  }
  state_.end();
  record.post = hash_ = state_.hash();
  return {};
}

Result<void> Brain::apply(const Record& record) {
  const Globals& globals = state_.globals();
  if (record.index != globals.index + 1) {
    return Error{ErrorCode::kCorrupt,
                 "record " + std::to_string(record.index) + " cannot follow record " + std::to_string(globals.index)};
  }
  if (record.prior != hash_) {
    return Error{ErrorCode::kCorrupt, "record " + std::to_string(record.index) +
                                          " was decided in another state: its hash is " + record.prior.to_string() +
                                          ", this one's " + hash_.to_string()};
  }
  state_.begin(record.index, record.logical, record.wall_ns, record.command);
  for (const Event& event : record.events) state_.apply(event, record.command);
  state_.placement().drop_stale(state_);
  state_.end();
  hash_ = state_.hash();
  seen_ns_ = std::max(seen_ns_, record.wall_ns);
  if (record.post != hash_) {
    return Error{ErrorCode::kCorrupt, "after record " + std::to_string(record.index) + " the state's hash is " +
                                          hash_.to_string() + ", not " + record.post.to_string()};
  }
  return {};
}

Result<void> Brain::verify(const Record& record) {
  const Term term = std::exchange(term_, record.term);
  Record again;
  Result<void> result = execute(Command(record.command), record.wall_ns, again);
  term_ = term;
  const std::string where = "record " + std::to_string(record.index) + " (" +
                            std::visit([](const auto& c) { return std::string(c.kName); }, record.command) + ")";
  if (!result.ok()) {
    return Error{ErrorCode::kConflict, where + " would be refused now: " + result.error().message};
  }
  if (again.index != record.index) {
    return Error{ErrorCode::kConflict, where + " would have no events now"};
  }
  std::string then_bytes;
  std::string now_bytes;
  for (std::size_t i = 0; i < std::max(record.events.size(), again.events.size()); ++i) {
    then_bytes.clear();
    now_bytes.clear();
    if (i < record.events.size()) encode(record.events[i], then_bytes);
    if (i < again.events.size()) encode(again.events[i], now_bytes);
    if (then_bytes == now_bytes) continue;
    const std::string then = i < record.events.size() ? to_text(record.events[i]) : "nothing more";
    const std::string now = i < again.events.size() ? to_text(again.events[i]) : "nothing more";
    return Error{ErrorCode::kConflict, where + ", event " + std::to_string(i + 1) + ", would be decided otherwise now"}
        .with("record", std::to_string(record.index))
        .with("then", then)
        .with("now", now);
  }
  if (again.parent != record.parent) {
    return Error{ErrorCode::kConflict, where + ": its parent would be record " + std::to_string(again.parent) +
                                           ", not " + std::to_string(record.parent)};
  }
  if (again.prior != record.prior || again.post != record.post) {
    return Error{ErrorCode::kConflict, where + ": the events are the same, but the state's hash is " +
                                           again.post.to_string() + ", not " + record.post.to_string()};
  }
  return {};
}

std::string Brain::snapshot() const {
  std::string bytes(kSnapshotMagic);
  std::string body = state_.encode();
  encode(term_, bytes);
  encode(hash_, bytes);
  encode(hash128(body), bytes);
  bytes += body;
  return bytes;
}

Result<Brain> Brain::restore(std::string_view bytes) {
  if (!bytes.starts_with(kSnapshotMagic)) return not_a_snapshot(bytes);
  Decoder decoder(bytes.substr(kSnapshotMagic.size()));
  Term term;
  Hash128 hash;
  Hash128 check;
  std::string_view body;
  if (!decoder.read(term) || !decoder.read(hash) || !decoder.read(check) || !decoder.raw(decoder.left(), body)) {
    return decoder.error();
  }
  if (hash128(body) != check) return Error{ErrorCode::kCorrupt, "the snapshot was changed after it was written"};
  ROTA_TRY_ASSIGN(State state, State::decode(body));
  if (state.hash() != hash) {
    return Error{ErrorCode::kCorrupt,
                 "the snapshot's state has the hash " + state.hash().to_string() + ", not " + hash.to_string()};
  }
  Brain brain(term);
  brain.seen_ns_ = state.time_ns();
  brain.state_ = std::move(state);
  brain.hash_ = hash;
  return brain;
}

}  // namespace rota::fleet
