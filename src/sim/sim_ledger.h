// A disk that outlives the host, and the ledger that one life of a host has on it (S-1).
//
// The disk is a MemoryLedger of what is durable. A life's ledger queues the submitted records; one task of the world
// writes them, group by group, and each sync takes a drawn time. When the host crashes, a drawn prefix of the records
// that were not durable yet is stored nevertheless, as a torn tail leaves it. A sync can fail; then the object is
// broken, as ledger.h says, and a drawn prefix is stored.
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/memory_ledger.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
#include "sim/scenario.h"
#include "sim/transport.h"
#include "sim/witness.h"

namespace rota::sim {

class SimDisk {
 public:
  SimDisk(std::uint64_t seed, Witness& witness) : seed_(seed), witness_(witness) {}
  [[nodiscard]] ledger::MemoryLedger& durable() { return *durable_; }
  // Stores a record for good.
  void store(const ledger::RecordBytes& record, std::uint64_t life);
  // Lets the time of a sync pass. A slow one that is under way when the faults end is over at once.
  void pass(nanoseconds time);
  void heal();
  // Called with each record that becomes durable.
  std::function<void(const fleet::Record&)> on_record{};
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] std::uint64_t next_draw() { return ++draws_; }

 private:
  const std::uint64_t seed_;
  Witness& witness_;
  std::unique_ptr<ledger::MemoryLedger> durable_ = std::make_unique<ledger::MemoryLedger>();
  std::uint64_t draws_ = 0;
  bool healed_ = false;
  fiber::Event hurry_;  // Set by heal().
};

// The ledger of one life of a host, as the world sees it.
class LifeLedger : public ledger::Ledger {
 public:
  // Before the host begins: waits until this life may write. Closed if the host is dead.
  virtual Result<void> begin() = 0;
  // The task that writes; until kill() or cancellation.
  virtual void write_all() = 0;
  // The host is dead: no call has an effect any more.
  virtual void kill() = 0;
  // After kill(), and after the host has ended: ends the ledger's own tasks.
  virtual void end() = 0;
  // Something happens to what the records are stored in (FaultKind::kDiskError).
  virtual void disturb(const Fault& fault) = 0;
  // It failed because of a fault that the world injected.
  [[nodiscard]] virtual bool is_broken() const = 0;
};

class SimLedger final : public LifeLedger {
 public:
  struct Options {
    const Noise* noise = nullptr;  // Of the world; changes when the faults end.
    std::int64_t queue = 4096;
    std::uint64_t life = 0;
    CrashCheck crashes{};
  };
  SimLedger(SimDisk& disk, Options options) : disk_(disk), options_(std::move(options)) {}

  Result<void> begin() override { return {}; }
  void write_all() override;
  // A prefix of what was not durable is stored.
  void kill() override;
  void end() override {}
  // The next sync fails.
  void disturb(const Fault& /*fault*/) override { break_next_ = true; }
  [[nodiscard]] bool is_broken() const override { return !failure_.ok(); }

  Result<void> submit(std::span<const ledger::RecordBytes> records) override;
  Result<void> wait_durable(std::uint64_t index) override;
  Result<std::vector<ledger::RecordBytes>> read(std::uint64_t from, std::size_t max_records) override;
  [[nodiscard]] std::uint64_t first_index() const override { return disk_.durable().first_index(); }
  [[nodiscard]] std::uint64_t last_index() const override { return disk_.durable().last_index(); }
  [[nodiscard]] std::uint64_t submitted_index() const override { return last_index() + pending_.size(); }
  Result<void> save_snapshot(ledger::Snapshot snapshot) override;
  Result<std::optional<ledger::Snapshot>> latest_snapshot() override;
  Result<void> compact(std::uint64_t up_to) override;
  Result<void> backup(const std::string& path) override { return disk_.durable().backup(path); }
  Result<void> close() override { return {}; }

 private:
  [[nodiscard]] Result<void> usable() const;
  // True: the host has crashed here.
  [[nodiscard]] bool crash(CrashPoint point) { return options_.crashes && options_.crashes(point); }
  void store_prefix(std::size_t count);
  [[nodiscard]] std::uint64_t draw_now(std::string_view what) { return draw(disk_.seed(), what, disk_.next_draw()); }

  SimDisk& disk_;
  const Options options_;
  std::deque<ledger::RecordBytes> pending_;
  fiber::Event more_;      // Set when there is something to write.
  fiber::Event advanced_;  // Set, then reset, when last_index() advances or the ledger ends.
  Result<void> failure_;
  bool dead_ = false;
  bool break_next_ = false;
};

}  // namespace rota::sim
