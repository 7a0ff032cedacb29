// Several hosts on one replicated ledger: who decides, what a follower answers, and what remains of a leader that was
// deposed. The hosts run on FakeStore and the in-process bus, in virtual time.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "host/follower.h"
#include "host/host_testing.h"
#include "ledger/fake_store.h"
#include "ledger/replicated_ledger.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
using ledger::ReplicatedLedger;
using ledger::kv::CallKind;
using ledger::kv::FakeStore;
using ledger::kv::Fault;
using ledger::kv::Txn;

constexpr std::uint64_t kTermsAbove = 1'000'000;

// One of the hosts. All of them use one bus, as they use one Redis.
struct Replica {
  Replica(FakeStore& world, fiber::Nursery& the_nursery, bus::LocalBus& the_bus, const std::string& name,
          std::uint64_t snapshot_every = 0)
      : nursery(the_nursery),
        bus(the_bus),
        store(world.client([this](CallKind, const Txn*) { return cut_off.load() ? Fault::kLost : Fault::kNone; })),
        ledger(ReplicatedLedger::open(*store,
                                      {.name = name, .terms_above = kTermsAbove, .lease = std::chrono::seconds(2)},
                                      nursery, std::chrono::seconds(10))
                   .value()) {
    HostOptions of = options();
    of.follow = true;
    of.replica = ledger.get();
    of.snapshot_every = snapshot_every;
    of.open_buses = [this](std::uint64_t term) -> Result<std::vector<bus::HostEnd*>> {
      terms.push_back(term);
      leads.set();
      return std::vector<bus::HostEnd*>{&bus.host()};
    };
    of.close_buses = [this] { leads.reset(); };
    host = std::make_unique<Host>(*ledger, std::vector<bus::HostEnd*>{}, std::move(of));
    task = nursery.spawn([this] { return host->run(); });
  }
  void stop() {
    host->stop();
    const Result<void> ended = task.get();
    EXPECT_TRUE(ended.ok()) << (ended.ok() ? "" : ended.error().to_string());
    EXPECT_TRUE(ledger->close().ok());
  }
  // The process is killed: nothing of it reaches the store any more, and its lease ends by itself.
  void crash() {
    cut_off.store(true);
    task.cancel();
    task.wait();
  }
  Hash128 hash(std::uint64_t index) const {
    Hash128 hash;
    EXPECT_TRUE(host->follower().wait_for(index, 100s).ok());
    EXPECT_TRUE(host->follower().read([&](const fleet::State& state) { hash = state.hash(); }, index).ok());
    return hash;
  }

  fiber::Nursery& nursery;
  bus::LocalBus& bus;
  sync::Atomic<bool> cut_off{false};
  std::unique_ptr<ledger::kv::Store> store;
  std::unique_ptr<ReplicatedLedger> ledger;
  std::vector<std::uint64_t> terms;
  fiber::Event leads;
  std::unique_ptr<Host> host;
  fiber::Task<Result<void>> task;
};

template <class Body>
void in_world(Body body) {
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 7});
  runtime.run([&] {
    FakeStore world;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) { body(world, nursery, bus); });
  });
}

fleet::SubmitWorkflow submission(std::string key) { return {.key = std::move(key), .workflow = chain({"a", "b"})}; }

// Commands wait until some host has registered the worker.
void await_worker(Replica& replica, const std::string& worker) {
  bool there = false;
  for (std::uint64_t index = 0; !there; ++index) {
    ASSERT_TRUE(replica.host->follower()
                    .read([&](const fleet::State& state) { there = state.find_worker(worker) != nullptr; }, index, 100s)
                    .ok());
  }
}

// Contract: L-3. Only the leader decides; a follower names it, and shows the same state.
TEST(ReplicatedHost, AFollowerShowsTheStateAndNamesTheLeader) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    Replica b(world, nursery, bus, "http://b");
    Puppet worker(bus, "w");
    worker.hello();
    await_worker(a, "w");
    const WorkflowId workflow = accepted(a.host->execute(submission("one")));
    EXPECT_TRUE(a.host->check_leads().ok());
    EXPECT_EQ(a.host->leader_url(), "http://a");

    const Result<fleet::Events> refused = b.host->execute(submission("two"));
    ASSERT_EQ(refused.code(), ErrorCode::kNotLeader);
    EXPECT_EQ(*refused.error().detail("leader"), "http://a");
    EXPECT_EQ(http_status(refused.code()), 503);
    EXPECT_EQ(b.host->check_leads().code(), ErrorCode::kNotLeader);
    const std::uint64_t index = a.host->durable_index();
    bool known = false;
    ASSERT_TRUE(b.host->follower()
                    .read([&](const fleet::State& state) { known = state.find(workflow) != nullptr; }, index)
                    .ok());
    EXPECT_TRUE(known);
    EXPECT_EQ(a.hash(index), b.hash(index));
    b.stop();
    a.stop();
  });
}

// Contract: L-3. The leader dies with a task in flight. The follower takes over with the same state hash and a higher
// term, sends the task again in that term, and the report of the worker that has it counts once.
TEST(ReplicatedHost, TakesOverWithTheSameStateAndSendsAgain) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    Replica b(world, nursery, bus, "http://b");
    Puppet worker(bus, "w");
    worker.hello();
    await_worker(a, "w");
    const WorkflowId workflow = accepted(a.host->execute(submission("one")));
    const Assign first = worker.next_assign();
    const std::uint64_t index = a.host->durable_index();
    const Hash128 before = a.hash(index);
    a.crash();
    b.leads.wait();
    EXPECT_EQ(b.hash(index), before);
    ASSERT_EQ(b.terms.size(), 1U);
    EXPECT_GT(b.terms[0], a.terms[0]);
    EXPECT_GT(a.terms[0], kTermsAbove);

    worker.hello(1, {{first.id, first.assigned_ns}});
    const Assign again = worker.next_assign();
    EXPECT_EQ(again.id, first.id);
    EXPECT_EQ(again.term.value(), b.terms[0]);
    worker.report_end(first, AttemptEnd::kSucceeded);
    Assign second = again;  // The first registration may be delivered again, too, and have the same answer.
    while (second.id == first.id) second = worker.next_assign();
    worker.report_end(first, AttemptEnd::kSucceeded);  // Late: it changes nothing.
    worker.report_end(second, AttemptEnd::kSucceeded);
    Outcome outcome = Outcome::kRunning;
    for (std::uint64_t at = index; outcome == Outcome::kRunning; ++at) {
      ASSERT_TRUE(b.host->follower()
                      .read([&](const fleet::State& state) { outcome = state.find(workflow)->outcome; }, at, 100s)
                      .ok());
    }
    EXPECT_EQ(outcome, Outcome::kSucceeded);
    // The same submission, to the new leader, is the same workflow.
    const Result<fleet::Events> repeated = b.host->execute(submission("one"));
    ASSERT_EQ(repeated.code(), ErrorCode::kAlreadyExists);
    b.stop();
  });
}

// Contract: L-3. A leader that is cut off decides something and cannot commit it. Its client is not told that it
// happened; another host leads meanwhile; when the first is back, it follows, with the state of the others, and leads
// again later in a new term.
TEST(ReplicatedHost, ADeposedLeaderDropsWhatItDidNotCommitAndFollows) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    Puppet worker(bus, "w");
    worker.hello();
    await_worker(a, "w");
    Replica b(world, nursery, bus, "http://b");
    const std::uint64_t index = a.host->durable_index();
    ASSERT_TRUE(b.host->follower().wait_for(index, 100s).ok());
    a.cut_off.store(true);
    fiber::Task<Result<fleet::Events>> lost = nursery.spawn([&] { return a.host->execute(submission("lost")); });
    b.leads.wait();
    EXPECT_EQ(b.host->durable_index(), index);
    const WorkflowId kept = accepted(b.host->execute(submission("kept")));
    a.cut_off.store(false);
    EXPECT_EQ(lost.get().code(), ErrorCode::kNotLeader);
    while (a.host->check_leads().ok()) ASSERT_TRUE(fiber::sleep_for(10ms).ok());
    const std::uint64_t now = b.host->durable_index();
    EXPECT_EQ(a.hash(now), b.hash(now));
    // The lost submission does not exist anywhere, so it may be sent again.
    bool there = true;
    ASSERT_TRUE(
        a.host->follower()
            .read([&](const fleet::State& state) { there = state.find(WorkflowId(kept.value() + 1)) != nullptr; }, now)
            .ok());
    EXPECT_FALSE(there);
    b.stop();
    a.leads.wait();
    ASSERT_EQ(a.terms.size(), 2U);
    EXPECT_GT(a.terms[1], b.terms[0]);
    EXPECT_TRUE(accepted(a.host->execute(submission("lost"))).value() > kept.value());
    a.stop();
  });
}

// Contract: L-3. While the store is down nothing is accepted and nothing is lost; the host continues when it is back.
TEST(ReplicatedHost, WaitsWhileTheStoreIsDown) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    Replica b(world, nursery, bus, "http://b");
    Puppet worker(bus, "w");
    worker.hello();
    await_worker(a, "w");
    const std::uint64_t before = a.host->durable_index();
    world.set_down(true);
    fiber::Task<Result<fleet::Events>> waiting = nursery.spawn([&] { return a.host->execute(submission("one")); });
    ASSERT_TRUE(fiber::sleep_for(60s).ok());
    EXPECT_FALSE(waiting.is_completed());
    EXPECT_EQ(a.host->durable_index(), before);
    EXPECT_TRUE(b.host->follower().read([](const fleet::State&) {}).ok());  // Reads are answered.
    world.set_down(false);
    // The lease ended meanwhile: either of them decides, exactly once.
    const Result<fleet::Events> first = waiting.get();
    Result<fleet::Events> again = ErrorCode::kNotLeader;
    while (again.code() == ErrorCode::kNotLeader) {
      again = (a.host->check_leads().ok() ? a : b).host->execute(submission("one"));
      ASSERT_TRUE(fiber::sleep_for(10ms).ok());
    }
    EXPECT_EQ(again.code(), first.ok() ? ErrorCode::kAlreadyExists : again.code());
    EXPECT_EQ(worker.next_assign().id.attempt, AttemptNumber(1));
    a.stop();
    b.stop();
  });
}

// Contract: L-3. A leader that is cut off from the store says so, and sends clients away once its lease must have
// ended: another host may lead.
TEST(ReplicatedHost, ALeaderThatIsCutOffSaysSo) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    ASSERT_TRUE(fiber::sleep_for(60s).ok());  // The lease is renewed all the time.
    EXPECT_TRUE(a.host->check_leads().ok());
    EXPECT_TRUE(a.host->check_writable().ok());
    a.cut_off.store(true);
    while (a.host->check_leads().ok()) ASSERT_TRUE(fiber::sleep_for(10ms).ok());
    const Result<void> refused = a.host->check_leads();
    EXPECT_EQ(refused.code(), ErrorCode::kNotLeader);
    EXPECT_EQ(*refused.error().detail("leader"), "");
    const Result<void> writable = a.host->check_writable();
    ASSERT_EQ(writable.code(), ErrorCode::kUnavailable);
    EXPECT_NE(writable.error().message.find("etcd has not answered for"), std::string::npos);
    a.cut_off.store(false);
    while (!a.host->check_leads().ok()) ASSERT_TRUE(fiber::sleep_for(10ms).ok());
    EXPECT_TRUE(a.host->check_writable().ok());
    a.stop();
  });
}

// Contract: L-3. A follower notices within twice the length of a lease that the store is down, and that it is back.
TEST(ReplicatedHost, AFollowerNoticesThatTheStoreIsDown) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    Replica b(world, nursery, bus, "http://b");
    ASSERT_TRUE(fiber::sleep_for(20s).ok());
    EXPECT_TRUE(b.host->check_writable().ok());
    world.set_down(true);
    ASSERT_TRUE(fiber::sleep_for(10s).ok());
    EXPECT_EQ(a.host->check_writable().code(), ErrorCode::kUnavailable);
    EXPECT_EQ(b.host->check_writable().code(), ErrorCode::kUnavailable);
    world.set_down(false);
    ASSERT_TRUE(fiber::sleep_for(20s).ok());
    EXPECT_TRUE(a.host->check_writable().ok());
    EXPECT_TRUE(b.host->check_writable().ok());
    EXPECT_NE(a.host->check_leads().ok(), b.host->check_leads().ok());
    a.stop();
    b.stop();
  });
}

// Contract: L-3. A worker knows a newer term than the log, which was restored from a backup: the leader goes beyond it
// instead of being ignored by its workers for ever.
TEST(ReplicatedHost, GoesBeyondATermThatAWorkerHasHeard) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a");
    a.leads.wait();
    a.leads.reset();
    Puppet worker(bus, "w");
    const std::uint64_t heard = a.terms[0] + 5000;
    worker.hello(1, {}, model::Term(heard));
    a.leads.wait();
    worker.hello(1, {}, model::Term(heard));
    await_worker(a, "w");
    (void)accepted(a.host->execute(submission("one")));
    EXPECT_GT(worker.next_assign().term.value(), heard);
    EXPECT_GT(a.terms.back(), heard);
    a.stop();
  });
}

// Contract: L-4. A follower that was cut off while the leader compacted the log begins again with the snapshot.
TEST(ReplicatedHost, AFollowerThatLagsBehindACompactionStartsFromTheSnapshot) {
  in_world([](FakeStore& world, fiber::Nursery& nursery, bus::LocalBus& bus) {
    Replica a(world, nursery, bus, "http://a", 10);
    a.leads.wait();
    Puppet worker(bus, "w");
    worker.hello();
    await_worker(a, "w");
    Replica b(world, nursery, bus, "http://b", 10);
    ASSERT_TRUE(b.host->follower().wait_for(a.host->durable_index(), 100s).ok());
    b.cut_off.store(true);
    for (int i = 0; i < 40; ++i) (void)accepted(a.host->execute(submission("wf" + std::to_string(i))));
    while (a.ledger->first_index() <= b.host->follower().index() + 1) ASSERT_TRUE(fiber::sleep_for(10ms).ok());
    b.cut_off.store(false);
    const std::uint64_t index = a.host->durable_index();
    EXPECT_EQ(a.hash(index), b.hash(index));
    b.stop();
    a.stop();
  });
}

}  // namespace
}  // namespace rota::host
