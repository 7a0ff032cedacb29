#include "ledger/replicated_ledger.h"

#include <utility>

#include "base/log.h"
#include "rota/fiber/time.h"

namespace rota::ledger {

namespace {

constexpr std::chrono::seconds kOpenWithin{5};
constexpr std::chrono::seconds kPause{1};  // Before a campaign that failed is repeated.

// Time and other hosts do not change these.
bool is_permanent(ErrorCode code) {
  return code == ErrorCode::kCorrupt || code == ErrorCode::kUnsupported || code == ErrorCode::kInvalidArgument ||
         code == ErrorCode::kUnauthenticated || code == ErrorCode::kPermissionDenied || code == ErrorCode::kCancelled;
}

}  // namespace

ReplicatedLedger::ReplicatedLedger(kv::Store& store, EtcdLedgerOptions options, fiber::Nursery& nursery,
                                   std::unique_ptr<EtcdLedger> first)
    : store_(store), options_(std::move(options)), nursery_(nursery), current_(std::move(first)) {}

ReplicatedLedger::~ReplicatedLedger() { (void)close(); }

Result<std::unique_ptr<ReplicatedLedger>> ReplicatedLedger::open(kv::Store& store, EtcdLedgerOptions options,
                                                                 fiber::Nursery& nursery, kv::Deadline deadline) {
  ROTA_TRY_ASSIGN(std::unique_ptr<EtcdLedger> first, EtcdLedger::open(store, options, nursery, deadline));
  return std::unique_ptr<ReplicatedLedger>(
      new ReplicatedLedger(store, std::move(options), nursery, std::move(first)));  // NOLINT: private constructor.
}

std::shared_ptr<EtcdLedger> ReplicatedLedger::current() const {
  const sync::MutexLock lock(mutex_);
  return current_;
}

template <class Read>
auto ReplicatedLedger::reading(Read&& read) {
  for (;;) {
    const std::shared_ptr<EtcdLedger> ledger = current();
    auto result = read(*ledger);
    if (result.code() != ErrorCode::kClosed || ledger == current()) return result;
  }
}

Result<std::uint64_t> ReplicatedLedger::lead() {
  for (;;) {
    const std::shared_ptr<EtcdLedger> ledger = current();
    Result<std::uint64_t> term = ledger->campaign({});
    if (term.ok()) {
      const sync::MutexLock lock(mutex_);
      if (closed_) return detail::closed_error();
      leading_ = true;
      return term;
    }
    if (is_permanent(term.code())) return term;
    {
      const sync::MutexLock lock(mutex_);
      if (closed_) return detail::closed_error();
    }
    ROTA_LOG(kWarn, "this host could not campaign and tries again", {"why", term.error().message});
    ROTA_TRY(fiber::sleep_for(kPause));
    ROTA_TRY(follow());
  }
}

Error ReplicatedLedger::wait_deposed() { return current()->wait_failure(); }

Result<void> ReplicatedLedger::follow() {
  {
    const sync::MutexLock lock(mutex_);
    leading_ = false;
  }
  for (;;) {
    // The old one still answers reads, and, if it leads, holds the leadership until it is closed.
    Result<std::unique_ptr<EtcdLedger>> next = EtcdLedger::open(store_, options_, nursery_, kOpenWithin);
    if (!next.ok()) {
      if (is_permanent(next.code())) return std::move(next).take_error();
      ROTA_TRY(fiber::sleep_for(kPause));
      continue;
    }
    std::shared_ptr<EtcdLedger> old(std::move(*next));
    bool closed = false;
    {
      const sync::MutexLock lock(mutex_);
      closed = closed_;
      current_.swap(old);
    }
    (void)old->close();
    if (!closed) return {};
    (void)current()->close();
    return detail::closed_error();
  }
}

Result<void> ReplicatedLedger::raise_terms(std::uint64_t term) { return current()->raise_terms(term); }

bool ReplicatedLedger::is_leading() const {
  const sync::MutexLock lock(mutex_);
  return leading_;
}

bool ReplicatedLedger::holds_lease() const { return is_leading() && current()->holds_lease(); }
Result<void> ReplicatedLedger::check_writable() const { return current()->check_writable(); }

std::string ReplicatedLedger::leader() const { return current()->leader(); }

Error ReplicatedLedger::not_leader() const {
  std::string name = leader();
  // This host has led until a moment ago, and does not know yet who will.
  if (name == options_.name) name.clear();
  const std::string message = name.empty() ? "this host does not lead, and no other host does at this moment; try again"
                                           : "this host does not lead; send the request to " + name;
  return Error{ErrorCode::kNotLeader, message}.with("leader", name);
}

Result<void> ReplicatedLedger::wait_beyond(std::uint64_t index) {
  return reading([&](EtcdLedger& ledger) { return ledger.wait_beyond(index, {}); });
}

Result<void> ReplicatedLedger::submit(std::span<const RecordBytes> records) { return current()->submit(records); }
Result<void> ReplicatedLedger::wait_durable(std::uint64_t index) { return current()->wait_durable(index); }

Result<std::vector<RecordBytes>> ReplicatedLedger::read(std::uint64_t from, std::size_t max_records) {
  return reading([&](EtcdLedger& ledger) { return ledger.read(from, max_records); });
}

std::uint64_t ReplicatedLedger::first_index() const { return current()->first_index(); }
std::uint64_t ReplicatedLedger::last_index() const { return current()->last_index(); }
std::uint64_t ReplicatedLedger::submitted_index() const { return current()->submitted_index(); }

Result<void> ReplicatedLedger::save_snapshot(Snapshot snapshot) {
  return current()->save_snapshot(std::move(snapshot));
}

Result<std::optional<Snapshot>> ReplicatedLedger::latest_snapshot() {
  return reading([](EtcdLedger& ledger) { return ledger.latest_snapshot(); });
}

Result<void> ReplicatedLedger::compact(std::uint64_t up_to) { return current()->compact(up_to); }
Result<void> ReplicatedLedger::backup(const std::string& path) { return current()->backup(path); }

Result<void> ReplicatedLedger::close() {
  {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return {};
  }
  return current()->close();
}

}  // namespace rota::ledger
