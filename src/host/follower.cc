#include "host/follower.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/sim_hooks.h"
#include "fleet/figures.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::size_t kReadRecords = 1000;
constexpr std::chrono::milliseconds kReadAgainAfter{200};  // While a replicated ledger cannot be reached.
constexpr std::size_t kApplyTogether = 256;  // Records per lock of the state: a reader waits no longer than for these.

Error no_record(std::uint64_t index, std::uint64_t first, std::uint64_t last) {
  return Error{ErrorCode::kNotFound,
               "the state after record " + std::to_string(index) + " cannot be read: the log has " +
                   (last == 0 ? std::string("no records")
                              : "the records " + std::to_string(first) + " to " + std::to_string(last))}
      .with("first", std::to_string(first))
      .with("last", std::to_string(last));
}

bool may_work_later(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kTimeout ||
         code == ErrorCode::kClosed;
}

// Applies the records from the ledger up to `index`, and calls seen(record) after each.
template <class Seen>
Result<void> apply_from(ledger::Ledger& ledger, std::uint64_t index, Recovered& to, Seen&& seen) {
  while (to.position.index < index) {
    const std::uint64_t next = to.position.index + 1;
    ROTA_TRY_ASSIGN(const std::vector<ledger::RecordBytes> records,
                    ledger.read(next, std::min<std::size_t>(index - next + 1, kReadRecords)));
    if (records.empty()) return no_record(index, ledger.first_index(), ledger.last_index());
    for (const ledger::RecordBytes& bytes : records) {
      ROTA_TRY_ASSIGN(const fleet::Record record, fleet::decode_record(bytes.bytes, to.position));
      ROTA_TRY(to.brain.apply(record));
      seen(record);
    }
  }
  return {};
}

}  // namespace

Follower::Follower(ledger::Ledger& ledger, Options options)
    : ledger_(ledger), options_(options), queue_(options.queue), first_(ledger.last_index()) {
  may_save_.store(!options.replicated);
}

void Follower::offer(std::vector<fleet::Record> records, const Hash128& chain) {
  if (records.empty() || queue_.try_send(Item{std::move(records), chain}).ok()) return;
  missed_.store(true);
  // If there is room again, this wakes run(); if there is not, run() is awake.
  (void)queue_.try_send(Item{});
}

Result<void> Follower::run() {
  Result<void> result;
  try {
    result = follow_all();
  } catch (const fiber::Cancelled&) {
    result = ErrorCode::kCancelled;
  }
  end(result);
  return result;
}

Result<void> Follower::follow_all() {
  ROTA_TRY(start_over());
  while (std::optional<Item> item = queue_.receive()) {
    ROTA_TRY(follow(std::move(*item)));
    for (;;) {
      Result<Item> more = queue_.try_receive();
      if (!more.ok()) break;
      ROTA_TRY(follow(std::move(*more)));
    }
    if (missed_.exchange(false)) ROTA_TRY(catch_up(ledger_.last_index()));
  }
  return {};
}

Result<void> Follower::follow(Item item) {
  if (item.records.empty()) return {};
  const std::uint64_t before = copy_.position.index;
  ROTA_TRY(catch_up(item.records.front().index - 1));
  std::size_t at = 0;
  while (at < item.records.size() && item.records[at].index <= copy_.position.index) ++at;
  while (at < item.records.size()) {
    const std::scoped_lock lock(state_mutex_);
    const std::size_t until = std::min(item.records.size(), at + kApplyTogether);
    for (; at < until; ++at) {
      const fleet::Record& record = item.records[at];
      ROTA_TRY(copy_.brain.apply(record));
      measure(record);
      copy_.brain.set_term(record.term);
      copy_.position = {record.index, record.term, record.logical, item.chain, record.post};
    }
    advance(copy_.position.index);
  }
  make_snapshot(before);
  return {};
}

Result<void> Follower::start_over() {
  for (;;) {
    Result<Recovered> recovered = recover(ledger_);
    if (recovered.ok()) {
      const std::scoped_lock lock(state_mutex_);
      copy_ = std::move(*recovered);
      usage_.begin(copy_.brain.state());
      break;
    }
    // Compacted between two reads, or unreachable.
    const bool again =
        options_.replicated && (may_work_later(recovered.code()) || recovered.code() == ErrorCode::kNotFound);
    if (!again) return std::move(recovered).take_error();
    ROTA_TRY(fiber::sleep_for(kReadAgainAfter));
  }
  advance(copy_.position.index);
  return {};
}

Result<std::vector<ledger::RecordBytes>> Follower::read_records(std::uint64_t from, std::uint64_t index) {
  for (;;) {
    auto records = ledger_.read(from, std::min<std::size_t>(index - from + 1, kApplyTogether));
    if (records.ok() && records->empty()) return no_record(index, ledger_.first_index(), ledger_.last_index());
    if (records.ok() || !options_.replicated || !may_work_later(records.code())) return records;
    ROTA_TRY(fiber::sleep_for(kReadAgainAfter));
  }
}

Result<void> Follower::catch_up(std::uint64_t index) {
  const std::uint64_t before = copy_.position.index;
  while (copy_.position.index < index) {
    const std::uint64_t next = copy_.position.index + 1;
    Result<std::vector<ledger::RecordBytes>> records = read_records(next, index);
    if (options_.replicated && records.code() == ErrorCode::kNotFound && ledger_.first_index() > next) {
      ROTA_TRY(start_over());  // The leader has compacted records that this host has not read yet.
      continue;
    }
    if (!records.ok()) return std::move(records).take_error();
    const std::scoped_lock lock(state_mutex_);
    for (const ledger::RecordBytes& bytes : *records) {
      ROTA_TRY_ASSIGN(const fleet::Record record, fleet::decode_record(bytes.bytes, copy_.position));
      ROTA_TRY(copy_.brain.apply(record));
      measure(record);
    }
    copy_.brain.set_term(copy_.position.term);
    advance(copy_.position.index);
  }
  make_snapshot(before);
  return {};
}

void Follower::read_on() {
  missed_.store(true);
  (void)queue_.try_send(Item{});
}

Result<Recovered> Follower::copy() {
  const std::scoped_lock lock(state_mutex_);
  const std::uint64_t index = copy_.position.index;
  if (index == 0) return Recovered();
  return decode_snapshot({index, encode_snapshot(copy_.brain, copy_.position.chain)});
}

void Follower::measure(const fleet::Record& record) {
  const fleet::State& state = copy_.brain.state();
  usage_.see(record, state);
  for (const fleet::Event& event : record.events) {
    fleet::each_begun(event, state, [&](model::TaskId id, model::AttemptNumber attempt) {
      if (attempt == model::AttemptNumber(1)) waits_.add(record.wall_ns - state.at(id).since_ns);
    });
  }
}

fleet::Usage Follower::usage(std::int64_t wall_ns) {
  const std::scoped_lock lock(state_mutex_);
  // A record that is on its way may be older than wall_ns, and end what was counted up to then.
  const fleet::Usage now = usage_.totals(wall_ns);
  shown_.cost_busy_microdollars = std::max(shown_.cost_busy_microdollars, now.cost_busy_microdollars);
  shown_.cost_up_microdollars = std::max(shown_.cost_up_microdollars, now.cost_up_microdollars);
  shown_.energy_busy_millijoules = std::max(shown_.energy_busy_millijoules, now.energy_busy_millijoules);
  shown_.energy_up_millijoules = std::max(shown_.energy_up_millijoules, now.energy_up_millijoules);
  shown_.utilisation_millionths = now.utilisation_millionths;
  return shown_;
}

void Follower::make_snapshot(std::uint64_t before) {
  const std::uint64_t every = options_.snapshot_every;
  const std::uint64_t now = copy_.position.index;
  if (every == 0 || before / every == now / every || !may_save_.load() || saving_.exchange(true)) return;
  const std::scoped_lock lock(state_mutex_);
  (void)snapshots_.try_send(ledger::Snapshot{now, encode_snapshot(copy_.brain, copy_.position.chain)});
}

void Follower::save() try {
  while (std::optional<ledger::Snapshot> snapshot = snapshots_.receive()) {
    const std::uint64_t index = snapshot->index;
    Result<void> saved = ledger_.save_snapshot(std::move(*snapshot));
    if (saved.ok() && options_.compact) saved = ledger_.compact(index);
    if (!saved.ok()) {
      // A failed snapshot is not a reason to stop: the log alone is enough.
      ROTA_LOG(kWarn, "snapshot not saved", {"record", index}, {"why", saved.error().message});
    }
    saving_.store(false);
  }
} catch (const fiber::Cancelled&) {
}

void Follower::close() {
  queue_.close();
  snapshots_.close();
}

// ------------------------------------------------------------------------------------------------------------ readers

void Follower::advance(std::uint64_t index) {
  std::vector<std::shared_ptr<fiber::Event>> reached;
  {
    const sync::MutexLock lock(mutex_);
    index_.store(index);
    const auto end = waiting_.upper_bound(index);
    for (auto at = waiting_.begin(); at != end; ++at) reached.push_back(at->second);
    waiting_.erase(waiting_.begin(), end);
  }
  for (const std::shared_ptr<fiber::Event>& event : reached) event->set();
}

void Follower::end(const Result<void>& result) {
  if (!result.ok() && result.code() != ErrorCode::kCancelled)
    ROTA_LOG(kError, "the follower has stopped", {"why", result.error().message});
  std::multimap<std::uint64_t, std::shared_ptr<fiber::Event>> waiting;
  {
    const sync::MutexLock lock(mutex_);
    ended_ = true;
    waiting.swap(waiting_);
  }
  for (const auto& [index, event] : waiting) event->set();
}

Result<void> Follower::wait_for(std::uint64_t index, std::chrono::nanoseconds limit) {
  const auto event = std::make_shared<fiber::Event>();
  std::multimap<std::uint64_t, std::shared_ptr<fiber::Event>>::iterator place;
  {
    const sync::MutexLock lock(mutex_);
    if (index_.load() >= index) return {};
    if (ended_) return Error{ErrorCode::kClosed, "the host is stopping"};
    place = waiting_.emplace(index, event);
  }
  bool set = false;
  bool cancelled = false;
  try {
    set = event->wait_for(limit);
  } catch (const fiber::Cancelled&) {
    cancelled = true;
  }
  const sync::MutexLock lock(mutex_);
  if (index_.load() >= index) return {};
  if (ended_) return Error{ErrorCode::kClosed, "the host is stopping"};
  if (!set) waiting_.erase(place);
  if (cancelled) return ErrorCode::kCancelled;
  return Error{ErrorCode::kTimeout, "record " + std::to_string(index) + " was not reached in time; the last is " +
                                        std::to_string(index_.load())};
}

Result<std::uint64_t> Follower::read(const Look& look, std::uint64_t index, std::chrono::nanoseconds limit) {
  if (ROTA_GUARD("host: a reader sees what it was told", true)) ROTA_TRY(wait_for(std::max(index, first_), limit));
  try {
    const std::scoped_lock lock(state_mutex_);
    look(copy_.brain.state());
    return copy_.brain.state().globals().index;
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

Result<void> Follower::read_past(std::uint64_t index, const Look& look) {
  try {
    const std::scoped_lock lock(past_mutex_);
    if (index > ledger_.last_index()) return no_record(index, ledger_.first_index(), ledger_.last_index());
    if (!past_ || past_->position.index > index) {
      past_.reset();
      ROTA_TRY_ASSIGN(std::optional<ledger::Snapshot> snapshot, ledger_.latest_snapshot());
      Recovered start;
      if (snapshot && snapshot->index <= index) {
        ROTA_TRY_ASSIGN(start, decode_snapshot(*snapshot));
      } else if (ledger_.first_index() > 1) {
        return no_record(index, ledger_.first_index(), ledger_.last_index());
      }
      past_ = std::move(start);
    }
    if (Result<void> applied = apply_from(ledger_, index, *past_, [](const fleet::Record&) {}); !applied.ok()) {
      past_.reset();
      return applied;
    }
    look(past_->brain.state());
    return {};
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

}  // namespace rota::host
