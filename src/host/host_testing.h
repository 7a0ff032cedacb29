// What the host's tests share: a worker under the control of the test, an observer, a slow ledger, and a running host.
//
// The host runs on a ledger in memory and the in-process bus, in real and in virtual time. A crash is a host that is
// cancelled, and a new one on the same ledger and bus.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "bus/local.h"
#include "fleet/state.h"
#include "host/host.h"
#include "ledger/memory_ledger.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::host::testing_support {

using namespace std::chrono_literals;
using fleet::Outcome;
using model::Assign;
using model::AttemptEnd;
using model::AttemptNumber;
using model::Incarnation;
using model::Report;
using model::TaskId;
using model::WorkflowId;

constexpr std::int64_t kWall = 1'700'000'000'000'000'000;

inline model::WorkflowSpec chain(std::initializer_list<const char*> names) {
  model::WorkflowSpec spec;
  spec.name = "chain";
  spec.templates.emplace_back();
  spec.templates.back().spec.type = "work";
  for (const char* name : names) {
    model::Stage stage;
    stage.name = name;
    if (!spec.stages.empty()) stage.needs = {static_cast<std::uint32_t>(spec.stages.size() - 1)};
    spec.stages.push_back(stage);
  }
  return spec;
}

// A worker under the control of the test: it receives messages and sends the reports that the test gives it.
class Puppet {
 public:
  Puppet(bus::LocalBus& bus, std::string name) : end_(bus.connect(name).value()) {}

  void hello(std::uint64_t incarnation = 1, std::vector<model::HeldAttempt> held = {}, model::Term term = {}) {
    model::Register hello;
    hello.incarnation = Incarnation(incarnation);
    hello.worker.resources.cpu_millis = 4000;
    hello.worker.resources.memory_bytes = 1 << 30;
    hello.worker.handlers = {"work"};
    hello.held = std::move(held);
    hello.term = term;
    ASSERT_TRUE(end_->send(hello).ok());
  }
  model::ToWorker next() {
    Result<bus::DeliveryToWorker> delivery = end_->receive(100s);
    EXPECT_TRUE(delivery.ok());
    EXPECT_TRUE(end_->acknowledge(delivery->id).ok());
    return delivery->message;
  }
  Assign next_assign() {
    for (;;) {
      model::ToWorker message = next();
      if (auto* assign = std::get_if<Assign>(&message)) return *assign;
    }
  }
  bool nothing() { return end_->receive(20ms).code() == ErrorCode::kTimeout; }
  void report(const Assign& assign, model::ReportBody body) {
    ASSERT_TRUE(end_->send(Report{assign.id, assign.term, std::move(body), assign.assigned_ns}).ok());
  }
  void report_end(const Assign& assign, AttemptEnd end, std::string result = {}, std::string message = {},
                  model::FailureKind failure = model::FailureKind::kError) {
    model::AttemptOutcome outcome;
    outcome.end = end;
    outcome.result = std::move(result);
    outcome.message = std::move(message);
    outcome.failure = failure;
    report(assign, model::Ended{std::move(outcome)});
  }
  bus::WorkerEnd& end() { return *end_; }

 private:
  std::unique_ptr<bus::WorkerEnd> end_;
};

// Checks that each record is durable when the observer sees it, and keeps the outcomes and reports.
class Watcher : public HostObserver {
 public:
  explicit Watcher(ledger::Ledger& ledger) : ledger_(ledger) {}
  void on_record(const fleet::Record& record) override {
    EXPECT_EQ(record.index, last_ + 1);
    last_ = record.index;
    EXPECT_LE(record.index, ledger_.last_index());
    for (const fleet::Event& event : record.events) {
      if (const auto* ended = std::get_if<fleet::WorkflowEnded>(&event)) {
        outcomes[ended->workflow] = ended->outcome;
        ended_.set();
      }
    }
  }
  void on_report(const std::string&, const Report& report) override {
    reports.push_back(report);
    count.fetch_add(1);
  }
  void from(std::uint64_t index) { last_ = index; }
  void wait_ended() { ended_.wait(); }

  std::map<WorkflowId, Outcome> outcomes;
  std::vector<Report> reports;
  sync::Atomic<std::size_t> count{0};

 private:
  ledger::Ledger& ledger_;
  std::uint64_t last_ = 0;
  fiber::Event ended_;
};

// A ledger whose syncs wait for the test and can fail.
class SlowLedger : public ledger::Ledger {
 public:
  Result<void> submit(std::span<const ledger::RecordBytes> records) override { return inner_.submit(records); }
  Result<void> wait_durable(std::uint64_t index) override {
    open.wait();
    if (broken.load()) return Error{ErrorCode::kIoError, "the disk is gone"};
    return inner_.wait_durable(index);
  }
  Result<std::vector<ledger::RecordBytes>> read(std::uint64_t from, std::size_t most) override {
    return inner_.read(from, most);
  }
  [[nodiscard]] std::uint64_t first_index() const override { return inner_.first_index(); }
  [[nodiscard]] std::uint64_t last_index() const override { return inner_.last_index(); }
  [[nodiscard]] std::uint64_t submitted_index() const override { return inner_.submitted_index(); }
  Result<void> save_snapshot(ledger::Snapshot snapshot) override { return inner_.save_snapshot(std::move(snapshot)); }
  Result<std::optional<ledger::Snapshot>> latest_snapshot() override { return inner_.latest_snapshot(); }
  Result<void> compact(std::uint64_t up_to) override { return inner_.compact(up_to); }
  Result<void> backup(const std::string& path) override { return inner_.backup(path); }
  Result<void> close() override { return inner_.close(); }

  fiber::Event open{true};
  sync::Atomic<bool> broken{false};

 private:
  ledger::MemoryLedger inner_;
};

// Runs the body on a real runtime and in deterministic mode.
template <class Body>
void everywhere(Body body) {
  {
    SCOPED_TRACE("two workers");
    fiber::Runtime runtime({.worker_count = 2});
    runtime.run(body);
  }
  SCOPED_TRACE("virtual time");
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  runtime.run(body);
}

inline HostOptions options() {
  HostOptions options;
  options.wall_ns = kWall;
  return options;
}

inline WorkflowId accepted(const Result<fleet::Events>& events) {
  EXPECT_TRUE(events.ok()) << (events.ok() ? "" : events.error().to_string());
  if (!events.ok()) return {};
  for (const fleet::Event& event : *events) {
    if (const auto* it = std::get_if<fleet::WorkflowAccepted>(&event)) return it->workflow;
  }
  return {};
}

// A host that runs beside the test until stop() or crash().
struct Running {
  Running(fiber::Nursery& nursery, ledger::Ledger& ledger, bus::LocalBus& bus, HostOptions of = options())
      : watcher(ledger), host(ledger, bus.host(), std::move(of), &watcher) {
    watcher.from(ledger.last_index());
    task = nursery.spawn([this] { return host.run(); });
  }
  void wait_registered(const std::string& worker) {
    for (;;) {
      auto there = std::make_shared<bool>(false);
      ASSERT_TRUE(host.inspect([=](const fleet::State& state) {
                        const fleet::Worker* it = state.find_worker(worker);
                        *there = it != nullptr && it->reachable;
                      })
                      .ok());
      if (*there) return;
      (void)fiber::sleep_for(1ms);
    }
  }
  void stop() {
    host.stop();
    const Result<void> ended = task.get();
    EXPECT_TRUE(ended.ok()) << (ended.ok() ? "" : ended.error().to_string());
  }
  // What a kill leaves behind is the ledger and the bus.
  void crash() {
    task.cancel();
    task.wait();
  }

  Watcher watcher;
  Host host;
  fiber::Task<Result<void>> task;
};

}  // namespace rota::host::testing_support
