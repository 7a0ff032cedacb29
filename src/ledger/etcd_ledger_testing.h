// Shared by the tests of EtcdLedger: ledgers that bring the tasks they need with them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fiber/baton.h"
#include "ledger/etcd_ledger.h"
#include "ledger/fake_store.h"
#include "rota/fiber.h"

namespace rota::ledger {

// A ledger that leads, with a nursery of its own: in the task that makes it, or, for a plain thread, in a runtime of
// its own. The task that makes it destroys it, in the order of scopes.
class OwnedEtcdLedger final : public Ledger {
 public:
  using MakeStore = std::function<std::unique_ptr<kv::Store>(fiber::Nursery&)>;

  static Result<std::unique_ptr<Ledger>> open(const MakeStore& make_store, const EtcdLedgerOptions& options) {
    auto owned = std::make_unique<OwnedEtcdLedger>();
    Result<void> opened;
    if (fiber::in_task()) {
      owned->nursery_ = std::make_unique<fiber::Nursery>();
      opened = owned->start(make_store, options, *owned->nursery_);
    } else {
      owned->runtime_ = std::make_unique<fiber::Runtime>(fiber::Config{.worker_count = 2});
      fiber::Nursery* nursery = nullptr;
      fiber::Baton ready;
      owned->keeper_ = owned->runtime_->spawn([&, self = owned.get()] {
        fiber::with_scope([&](fiber::Nursery& scope) {
          nursery = &scope;
          ready.post();
          (void)self->stop_.wait("the end of the test");
        });
      });
      (void)ready.wait("a nursery");
      opened = owned->runtime_->run([&] { return owned->start(make_store, options, *nursery); });
    }
    ROTA_TRY(std::move(opened));
    return std::unique_ptr<Ledger>(std::move(owned));
  }
  ~OwnedEtcdLedger() override {
    const auto drop = [this] {
      ledger_.reset();
      store_.reset();
    };
    if (runtime_ == nullptr) {
      drop();  // Then the nursery.
      return;
    }
    ledger_.reset();
    runtime_->run(drop);
    stop_.post();
    keeper_.get();
  }

  Result<void> submit(std::span<const RecordBytes> records) override { return ledger_->submit(records); }
  Result<void> wait_durable(std::uint64_t index) override { return ledger_->wait_durable(index); }
  Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max) override {
    return ledger_->read(from, max);
  }
  [[nodiscard]] std::uint64_t first_index() const override { return ledger_->first_index(); }
  [[nodiscard]] std::uint64_t last_index() const override { return ledger_->last_index(); }
  [[nodiscard]] std::uint64_t submitted_index() const override { return ledger_->submitted_index(); }
  Result<void> save_snapshot(Snapshot snapshot) override { return ledger_->save_snapshot(std::move(snapshot)); }
  Result<std::optional<Snapshot>> latest_snapshot() override { return ledger_->latest_snapshot(); }
  Result<void> compact(std::uint64_t up_to) override { return ledger_->compact(up_to); }
  Result<void> backup(const std::string& path) override { return ledger_->backup(path); }
  Result<void> close() override { return ledger_->close(); }

 private:
  Result<void> start(const MakeStore& make_store, const EtcdLedgerOptions& options, fiber::Nursery& nursery) {
    store_ = make_store(nursery);
    ROTA_TRY_ASSIGN(ledger_, EtcdLedger::open(*store_, options, nursery, std::chrono::seconds(60)));
    ROTA_TRY(ledger_->campaign(std::chrono::seconds(60)));
    return {};
  }

  fiber::Baton stop_{};
  std::unique_ptr<fiber::Runtime> runtime_{};
  fiber::Task<void> keeper_{};
  std::unique_ptr<fiber::Nursery> nursery_{};
  std::unique_ptr<kv::Store> store_{};
  std::unique_ptr<EtcdLedger> ledger_{};
};

}  // namespace rota::ledger
