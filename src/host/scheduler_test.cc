// Contract: H-7. The host submits what is due, by the rule for missed times, and never twice.
#include "host/scheduler.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "host/follower.h"
#include "host/host_testing.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)
using fleet::MissedRule;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kHour = 3'600;

TEST(DueTimes, FollowTheRuleForMissedOnes) {
  const Cron hourly = Cron::parse("@hourly").value();
  const TimeZone zone = TimeZone::utc();
  const auto due = [&](MissedRule rule, std::int64_t last_s, std::int64_t now_s) {
    return due_times(hourly, zone, rule, last_s, now_s);
  };
  for (const MissedRule rule : {MissedRule::kSkip, MissedRule::kLast, MissedRule::kAll}) {
    EXPECT_THAT(due(rule, kHour, 2 * kHour - 1), IsEmpty());
    EXPECT_THAT(due(rule, kHour, 2 * kHour), ElementsAre(2 * kHour));
    EXPECT_THAT(due(rule, kHour, 2 * kHour + kLateSeconds), ElementsAre(2 * kHour)) << "a minute late is in time";
  }
  EXPECT_THAT(due(MissedRule::kSkip, kHour, 2 * kHour + kLateSeconds + 1), IsEmpty());
  EXPECT_THAT(due(MissedRule::kSkip, kHour, 4 * kHour + 5), ElementsAre(4 * kHour));
  EXPECT_THAT(due(MissedRule::kLast, kHour, 4 * kHour + 1'000), ElementsAre(4 * kHour));
  EXPECT_THAT(due(MissedRule::kAll, kHour, 4 * kHour + 1'000), ElementsAre(2 * kHour, 3 * kHour, 4 * kHour));
  EXPECT_EQ(due(MissedRule::kAll, 0, 1'000 * kHour).size(), fleet::kMostQueuedFirings) << "bounded";
  EXPECT_EQ(firing_key("nightly", 3 * kHour + 60), "schedule/nightly/1970-01-01T03:01:00Z");
}

HostOptions following() {
  HostOptions of = options();
  of.follow = true;
  return of;
}

fleet::ScheduleSpec schedule(MissedRule missed, fleet::OverlapRule overlap) {
  fleet::ScheduleSpec spec{.name = "nightly", .cron = "@hourly", .zone = "UTC", .missed = missed, .overlap = overlap};
  spec.workflow = chain({"only"});
  return spec;
}

// The keys of all workflows, in the order of their ids, as a reader sees them when everything durable is applied.
std::vector<std::string> keys(Host& host) {
  std::vector<std::string> found;
  EXPECT_TRUE(host.follower()
                  .read(
                      [&](const fleet::State& state) {
                        state.each_workflow([&](const fleet::Workflow& workflow) { found.push_back(workflow.key); });
                      },
                      host.durable_index())
                  .ok());
  return found;
}

std::int64_t base_s(Host& host) {
  std::int64_t last_ns = 0;
  EXPECT_TRUE(host.follower()
                  .read([&](const fleet::State& state) { last_ns = state.globals().schedules.at("nightly").last_ns; },
                        host.durable_index())
                  .ok());
  return last_ns / kSecond / kHour * kHour;
}

// Contract: H-7. Two schedulers, as after a kill or a change of the leader, start one workflow for one time.
TEST(Scheduler, FiresOnceWhoeverLooksAndHoweverOften) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, following());
      Puppet worker(bus, "w");
      worker.hello();
      running.wait_registered("w");
      ASSERT_TRUE(
          running.host.execute(fleet::SetSchedule{schedule(MissedRule::kAll, fleet::OverlapRule::kAllow)}).ok());
      const std::int64_t base = base_s(running.host);
      std::int64_t now_ns = (base + 10) * kSecond;
      const auto clock = [&now_ns] { return now_ns; };
      Scheduler first(running.host, clock);
      ASSERT_TRUE(first.look().ok());
      EXPECT_THAT(keys(running.host), IsEmpty());
      now_ns = (base + 2 * kHour + 5) * kSecond;
      ASSERT_TRUE(first.look().ok());
      ASSERT_TRUE(first.look().ok());
      Scheduler second(running.host, clock);
      ASSERT_TRUE(second.look().ok());
      now_ns -= kHour * kSecond;  // The clock is set back.
      ASSERT_TRUE(second.look().ok());
      EXPECT_THAT(keys(running.host),
                  ElementsAre(firing_key("nightly", base + kHour), firing_key("nightly", base + 2 * kHour)));
      running.stop();
    });
  });
}

// Contract: H-7. What waits for the end of an earlier workflow is submitted when that has ended.
TEST(Scheduler, SubmitsWhatWasQueued) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, following());
      Puppet worker(bus, "w");
      worker.hello();
      running.wait_registered("w");
      ASSERT_TRUE(
          running.host.execute(fleet::SetSchedule{schedule(MissedRule::kAll, fleet::OverlapRule::kQueue)}).ok());
      const std::int64_t base = base_s(running.host);
      std::int64_t now_ns = (base + 2 * kHour + 5) * kSecond;
      Scheduler scheduler(running.host, [&now_ns] { return now_ns; });
      ASSERT_TRUE(scheduler.look().ok());
      EXPECT_EQ(keys(running.host).size(), 1U);
      ASSERT_TRUE(scheduler.look().ok());
      EXPECT_EQ(keys(running.host).size(), 1U) << "the first one still runs";
      worker.report_end(worker.next_assign(), AttemptEnd::kSucceeded, "1");
      running.watcher.wait_ended();
      EXPECT_TRUE(running.host.follower().wait_for(running.host.durable_index(), 100s).ok());
      ASSERT_TRUE(scheduler.look().ok());
      EXPECT_THAT(keys(running.host),
                  ElementsAre(firing_key("nightly", base + kHour), firing_key("nightly", base + 2 * kHour)));
      running.stop();
    });
  });
}

}  // namespace
}  // namespace rota::host
