#include "sim/sim_etcd.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/sim_hooks.h"
#include "rota/assert.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::sim {

namespace {

using namespace std::chrono_literals;
namespace kv = ledger::kv;

constexpr nanoseconds kLong = std::chrono::hours(24 * 365);

ledger::EtcdLedgerOptions options_of(std::string name) {
  ledger::EtcdLedgerOptions options;
  options.name = std::move(name);
  options.lease = std::chrono::seconds(2);
  options.call_within = 1s;
  options.retry_most = 200ms;
  options.close_within = 1ms;
  return options;
}

}  // namespace

class SimEtcd::Life final : public LifeLedger {
 public:
  Life(SimEtcd& etcd, std::uint64_t number, CrashCheck crashes)
      : etcd_(etcd), number_(number), crashes_(std::move(crashes)) {
    const auto latency = std::chrono::microseconds(std::max<std::int64_t>(etcd.noise_.sync_us / 2, 20));
    client_ = etcd.store_.client([this](kv::CallKind kind, const kv::Txn*) { return fault(kind); }, latency);
  }

  Result<void> begin() override {
    for (;;) {
      if (dead_) return ErrorCode::kClosed;
      if (inner_ == nullptr) {
        auto opened = ledger::EtcdLedger::open(*client_, options_of("host-" + std::to_string(number_)), etcd_.nursery_);
        if (opened.ok()) {
          inner_ = std::move(*opened);
        } else if (opened.code() == ErrorCode::kCancelled) {
          return opened.code();
        }
      }
      if (inner_ != nullptr) {
        const Result<std::uint64_t> term = inner_->campaign(10s);
        if (term.ok()) {
          ROTA_SOMETIMES("etcd: a host leads");
          return {};
        }
        if (term.code() == ErrorCode::kCancelled) return term.code();
        (void)inner_->close();
        inner_.reset();
      }
      ROTA_TRY(fiber::sleep_for(100ms));
    }
  }
  void write_all() override {}  // EtcdLedger has tasks of its own.
  void kill() override { dead_ = true; }
  void end() override {
    if (inner_ != nullptr) (void)inner_->close();
  }
  // What a disk error is for the other ledger.
  void disturb(const Fault& fault) override {
    if (fault.count % 2 == 0) {
      ROTA_SOMETIMES("etcd: every lease ends early");
      etcd_.store_.expire_leases();
      return;
    }
    ROTA_SOMETIMES("etcd: out of space");
    etcd_.store_.set_no_space(true);
    (void)fiber::sleep_for(std::chrono::milliseconds(std::max<std::int64_t>(fault.for_ms, 1)));
    etcd_.store_.set_no_space(false);
  }
  [[nodiscard]] bool is_broken() const override { return failed_; }

  Result<void> submit(std::span<const ledger::RecordBytes> records) override {
    ROTA_TRY(usable());
    if (crash(CrashPoint::kBeforeSubmit)) return ErrorCode::kClosed;
    // The next host may write the very same bytes after one whose record was lost with it.
    for (const ledger::RecordBytes& record : records) etcd_.written_by_[record.bytes] = number_;
    ROTA_TRY(note(inner_->submit(records)));
    if (crash(CrashPoint::kAfterSubmit)) return ErrorCode::kClosed;
    return {};
  }
  Result<void> wait_durable(std::uint64_t index) override {
    ROTA_TRY(usable());
    ROTA_TRY(note(inner_->wait_durable(index)));
    ROTA_TRY(usable());
    if (crash(CrashPoint::kAfterDurable)) return ErrorCode::kClosed;
    return {};
  }
  Result<std::vector<ledger::RecordBytes>> read(std::uint64_t from, std::size_t max_records) override {
    ROTA_TRY(usable());
    if (crash(CrashPoint::kInRecovery)) return ErrorCode::kClosed;
    return note(inner_->read(from, max_records));
  }
  [[nodiscard]] std::uint64_t first_index() const override { return inner_ == nullptr ? 1 : inner_->first_index(); }
  [[nodiscard]] std::uint64_t last_index() const override { return inner_ == nullptr ? 0 : inner_->last_index(); }
  [[nodiscard]] std::uint64_t submitted_index() const override {
    return inner_ == nullptr ? 0 : inner_->submitted_index();
  }
  Result<void> save_snapshot(ledger::Snapshot snapshot) override {
    ROTA_TRY(usable());
    if (crash(CrashPoint::kInSnapshot)) return ErrorCode::kClosed;
    ROTA_TRY(note(inner_->save_snapshot(snapshot)));
    return etcd_.disk_.durable().save_snapshot(std::move(snapshot));  // For the checkers.
  }
  Result<std::optional<ledger::Snapshot>> latest_snapshot() override {
    ROTA_TRY(usable());
    return note(inner_->latest_snapshot());
  }
  Result<void> compact(std::uint64_t up_to) override {
    ROTA_TRY(usable());
    if (crash(CrashPoint::kInCompaction)) return ErrorCode::kClosed;
    ROTA_SOMETIMES("etcd: records compacted");
    return note(inner_->compact(up_to));
  }
  Result<void> backup(const std::string& path) override {
    ROTA_TRY(usable());
    return inner_->backup(path);
  }
  Result<void> close() override { return {}; }

 private:
  [[nodiscard]] Result<void> usable() const {
    return dead_ || inner_ == nullptr ? Result<void>(ErrorCode::kClosed) : Result<void>();
  }
  [[nodiscard]] bool crash(CrashPoint point) { return crashes_ && crashes_(point); }
  // Remembers that the ledger has failed, which ends its host.
  template <class T>
  Result<T> note(Result<T> result) {
    const ErrorCode code = result.code();
    if (code == ErrorCode::kNotLeader) ROTA_SOMETIMES("etcd: a leader is deposed");
    if (!result.ok() && code != ErrorCode::kQueueFull && code != ErrorCode::kCancelled) failed_ = true;
    return result;
  }
  kv::Fault fault(kv::CallKind kind) {
    if (dead_) return kv::Fault::kLost;
    const auto permille = static_cast<std::uint64_t>(etcd_.noise_.error_permille);
    const std::uint64_t drawn = draw(etcd_.disk_.seed(), "etcd call", etcd_.disk_.next_draw());
    if (drawn % 1000 >= permille) return kv::Fault::kNone;
    const bool is_txn = kind == kv::CallKind::kTxn;
    switch (drawn / 1000 % 3) {
      case 0:
        if (is_txn) ROTA_SOMETIMES("etcd: a transaction is lost");
        return kv::Fault::kLost;
      case 1:
        if (is_txn) ROTA_SOMETIMES("etcd: a transaction is executed and not answered");
        return kv::Fault::kUnanswered;
      default:
        if (is_txn) ROTA_SOMETIMES("etcd: a transaction is executed late");
        return kv::Fault::kLate;
    }
  }

  SimEtcd& etcd_;
  const std::uint64_t number_;
  const CrashCheck crashes_;
  bool dead_ = false;
  bool failed_ = false;
  std::unique_ptr<kv::Store> client_;
  std::unique_ptr<ledger::EtcdLedger> inner_;
};

std::unique_ptr<LifeLedger> SimEtcd::life(std::uint64_t number, CrashCheck crashes) {
  return std::make_unique<Life>(*this, number, std::move(crashes));
}

void SimEtcd::observe() {
  const std::unique_ptr<kv::Store> client = store_.client();
  auto opened = ledger::EtcdLedger::open(*client, options_of("observer"), nursery_);
  ROTA_ASSERT(opened.ok(), "the observer has no faults");
  try {
    for (std::uint64_t seen = 0;;) {
      const Result<void> more = (*opened)->wait_beyond(seen, kLong);
      if (!more.ok()) break;
      const Result<std::vector<ledger::RecordBytes>> records = (*opened)->read(seen + 1, 1000);
      ROTA_ASSERT(records.ok(), "the observer reads records before they are compacted");
      for (const ledger::RecordBytes& record : *records) {
        const auto written = written_by_.find(record.bytes);
        ROTA_ASSERT(written != written_by_.end(), "a host has submitted every record of the log");
        disk_.store(record, written->second);
        seen = record.index;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
  (void)(*opened)->close();
}

}  // namespace rota::sim
