// Resources: whether something fits, what a task holds, and what is missing, compared with a naive model.
#include "rota/model/resources.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "model/complete_fields_test.h"
#include "model/workflow_spec.h"

namespace rota::model {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// --- The naive model: one unit of a resource after the other. ---

std::map<std::string, std::int64_t> as_map(const Amounts& amounts) {
  std::map<std::string, std::int64_t> all = {{"/cpu", amounts.cpu_millis}, {"/memory", amounts.memory_bytes}};
  for (const NamedAmount& entry : amounts.named) all[entry.name] = entry.count;
  return all;
}

bool naive_fits(const Resources& have, const ResourceRequest& request, const ResourceUse& used) {
  auto free = as_map(have);
  for (const auto& [name, amount] : as_map(used)) free[name] -= amount;
  for (const auto& [name, amount] : as_map(request)) {
    if (free[name] < amount) return false;
  }
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < have.gpus.size(); ++i) {
    const bool taken = (used.devices >> i & 1) != 0;
    const bool right = request.gpu.model.empty() || have.gpus[i].model == request.gpu.model;
    if (!taken && right && have.gpus[i].memory_bytes >= request.gpu.memory_bytes) ++devices;
  }
  return devices >= request.gpu.count;
}

// --- Random values of a size at which the limits meet. ---

std::vector<NamedAmount> any_named() {
  std::vector<NamedAmount> named;
  for (const char* name : {"licence", "seat"}) {
    const auto count = *rc::gen::inRange<std::int64_t>(0, 4);
    if (count > 0) named.push_back({name, count});
  }
  return named;
}

Resources any_resources() {
  Resources resources;
  resources.cpu_millis = *rc::gen::inRange<std::int64_t>(0, 6) * 1000;
  resources.memory_bytes = *rc::gen::inRange<std::int64_t>(0, 6) * kGiB;
  resources.named = any_named();
  const int devices = *rc::gen::inRange(0, 5);
  for (int i = 0; i < devices; ++i) {
    resources.gpus.push_back(
        {*rc::gen::element<std::string>("a10", "h100"), *rc::gen::element<std::int64_t>(0, 24, 80) * kGiB});
  }
  return resources;
}

ResourceRequest any_request() {
  ResourceRequest request;
  request.cpu_millis = *rc::gen::inRange<std::int64_t>(0, 5) * 500;
  request.memory_bytes = *rc::gen::inRange<std::int64_t>(0, 4) * kGiB;
  request.named = any_named();
  request.gpu.count = *rc::gen::inRange<std::int64_t>(0, 3);
  request.gpu.model = *rc::gen::element<std::string>("", "h100");
  request.gpu.memory_bytes = *rc::gen::element<std::int64_t>(0, 24, 80) * kGiB;
  return request;
}

// B-5, B-6: tasks are added while they fit. At each step the answers are those of the naive model, no device is given
// twice, each device meets the request, and everything can be given back in any order.
TEST(ResourcesTest, FitsAllotAndCountAgreeWithTheNaiveModel) {
  EXPECT_TRUE(rc::check("fits, allot, count", [] {
    const Resources resources = any_resources();
    ResourceUse used;
    std::vector<ResourceUse> held;
    for (int step = 0; step < 8; ++step) {
      const ResourceRequest request = any_request();
      const bool fits = resources.fits(request, used);
      RC_ASSERT(fits == naive_fits(resources, request, used));
      RC_ASSERT(fits == (resources.count(request, used) > 0));
      RC_ASSERT(fits == resources.fits(request, used, resources.suitable_devices(request.gpu)));
      RC_ASSERT(resources.can_run(request) == naive_fits(resources, request, {}));
      RC_ASSERT(resources.can_run(request) == resources.unmet(request).empty());
      if (!fits) continue;
      const ResourceUse use = resources.allot(request, used);
      RC_ASSERT(std::popcount(use.devices) == request.gpu.count);
      RC_ASSERT((use.devices & used.devices) == 0U);
      RC_ASSERT((use.devices & ~resources.suitable_devices(request.gpu)) == 0U);
      RC_ASSERT(resources.fits(use, used));
      used.add(use);
      RC_ASSERT(used.named_is_valid());
      held.push_back(use);
      RC_ASSERT(request.gpu.count == 0 || !resources.fits(use, used));  // Its devices are taken now.
    }
    while (!held.empty()) {
      const auto at = held.begin() + static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, held.size()));
      used.subtract(*at);
      held.erase(at);
    }
    RC_ASSERT(used == ResourceUse());
  }));
}

// count() is the number of times that allot() succeeds, and allotting several at once is the same as one by one.
TEST(ResourcesTest, CountIsHowOftenItFits) {
  EXPECT_TRUE(rc::check("count", [] {
    const Resources resources = any_resources();
    const ResourceRequest request = any_request();
    const std::int64_t count = resources.count(request);
    ResourceUse used;
    std::int64_t fitted = 0;
    while (fitted < 100 && resources.fits(request, used)) {
      used.add(resources.allot(request, used));
      ++fitted;
    }
    const bool limited =
        request.cpu_millis > 0 || request.memory_bytes > 0 || !request.named.empty() || request.gpu.count > 0;
    RC_ASSERT(count == (limited || fitted == 0 ? fitted : Resources::kMany));
    if (fitted > 0 && limited) RC_ASSERT(resources.allot(request, {}, fitted) == used);
  }));
}

TEST(ResourcesTest, DevicesWithTheLeastMemoryGoFirst) {
  Resources resources;
  resources.gpus = {{"h100", 80 * kGiB}, {"a10", 24 * kGiB}, {"h100", 80 * kGiB}, {"a10", 24 * kGiB}};
  ResourceRequest request;
  request.cpu_millis = 0;
  request.gpu.count = 3;
  EXPECT_EQ(resources.allot(request, {}).devices, 0b1011U);
  request.gpu = {1, "", 25 * kGiB};
  EXPECT_EQ(resources.suitable_devices(request.gpu), 0b0101U);
  EXPECT_EQ(resources.allot(request, {}).devices, 0b0001U);
  // 64 devices: the last one is bit 63, and a 65th request does not fit.
  resources.gpus.assign(64, {"h100", 80 * kGiB});
  request.gpu = {64, "h100", 0};
  EXPECT_EQ(resources.allot(request, {}).devices, ~DeviceSet{0});
  EXPECT_EQ(resources.all_devices(), ~DeviceSet{0});
  request.gpu.count = 1;
  EXPECT_FALSE(resources.fits(request, ResourceUse{{}, 64, ~DeviceSet{0}}));
  EXPECT_EQ(resources.count(request), 64);
}

// B-14, B-18: each part that is not met is named, with both figures.
TEST(ResourcesTest, UnmetNamesEachPart) {
  Resources resources;
  resources.cpu_millis = 2500;
  resources.memory_bytes = 16 * kGiB;
  resources.named = {{"licence", 1}};
  resources.gpus = {{"a10", 24 * kGiB}, {"h100", 80 * kGiB}};
  ResourceRequest request;
  request.cpu_millis = 4000;
  request.memory_bytes = 64 * kGiB;
  request.gpu = {2, "h100", 0};
  request.named = {{"licence", 2}, {"token", 1}};
  EXPECT_EQ(resources.unmet(request),
            (std::vector<std::string>{"cpu: 4 needed, 2.5 available", "memory: 64 GiB needed, 16 GiB available",
                                      "gpu.type: 2 of 'h100' needed, 1 available", "licence: 2 needed, 1 available",
                                      "token: 1 needed, 0 available"}));
  request = {};
  request.gpu = {2, "", 80 * kGiB};
  EXPECT_EQ(resources.unmet(request),
            std::vector<std::string>{"gpu.memory: 2 devices with 80 GiB each needed, 1 available"});
  request.gpu = {3, "", 0};
  EXPECT_EQ(resources.unmet(request), std::vector<std::string>{"gpu.count: 3 needed, 2 available"});
  EXPECT_TRUE(resources.unmet(ResourceRequest()).empty());
}

TEST(ResourcesTest, TextForPeople) {
  ResourceRequest request;
  EXPECT_EQ(to_text(request), "cpu 1");
  request.cpu_millis = 2500;
  request.memory_bytes = 64 * kGiB;
  request.gpu = {1, "A100", 40 * kGiB};
  request.named = {{"licence", 2}};
  EXPECT_EQ(to_text(request), "cpu 2.5, memory 64 GiB, gpu 1 x A100 with 40 GiB, licence 2");
  EXPECT_EQ(to_text(ResourceUse()), "nothing");
  Resources resources;
  resources.cpu_millis = 8000;
  resources.gpus.resize(2);
  EXPECT_EQ(to_text(resources), "cpu 8, gpu 2");
  EXPECT_EQ(amount_text(AmountUnit::kBytes, 1025), "1025 B");
  EXPECT_EQ(amount_text(AmountUnit::kThousandths, 1001), "1.001");
}

TEST(AmountsTest, NamedResourcesAreSortedAndCounted) {
  Amounts amounts;
  Amounts more;
  more.named = {{"b", 2}};
  amounts.add(more);
  more.named = {{"a", 1}, {"b", 1}, {"c", 3}};
  amounts.add(more, 2);
  EXPECT_EQ(amounts.named, (std::vector<NamedAmount>{{"a", 2}, {"b", 4}, {"c", 6}}));
  EXPECT_EQ(amounts.count_of("b"), 4);
  EXPECT_EQ(amounts.count_of("d"), 0);
  more.named = {{"a", 2}, {"c", 1}};
  amounts.subtract(more);
  EXPECT_EQ(amounts.named, (std::vector<NamedAmount>{{"b", 4}, {"c", 5}}));
  for (const std::vector<NamedAmount>& wrong :
       {std::vector<NamedAmount>{{"", 1}}, {{"a", 0}}, {{"a", -1}}, {{"b", 1}, {"a", 1}}, {{"a", 1}, {"a", 1}}}) {
    amounts.named = wrong;
    EXPECT_FALSE(amounts.named_is_valid());
  }
}

// B-22: a quota of 0 limits nothing; the first limit that would be exceeded is named with its figures.
TEST(FleetUseTest, AQuotaNamesTheLimitThatIsExceeded) {
  FleetUse quota;
  FleetUse used;
  ResourceRequest request;
  request.memory_bytes = kGiB;
  request.named = {{"licence", 1}};
  EXPECT_TRUE(quota.limits_nothing());
  EXPECT_FALSE(quota.exceeded(used, FleetUse::of(request, 1'000'000)));
  quota.cpu_millis = 2000;
  quota.tasks = 3;
  quota.named = {{"licence", 2}};
  Resources large;
  large.cpu_millis = 100'000;
  large.memory_bytes = 100 * kGiB;
  large.named = {{"licence", 100}};
  const ResourceUse held = large.allot(request, {});
  used.add(held);
  EXPECT_FALSE(quota.exceeded(used, FleetUse::of(request)));
  used.add(held);
  const auto cpu = quota.exceeded(used, FleetUse::of(request));
  ASSERT_TRUE(cpu);
  EXPECT_EQ(cpu->what, "cpu");
  EXPECT_EQ(cpu->limit, 2000);
  EXPECT_EQ(cpu->used, 2000);
  EXPECT_EQ(cpu->more, 1000);
  request.cpu_millis = 0;
  EXPECT_EQ(quota.exceeded(used, FleetUse::of(request))->what, "licence");
  EXPECT_EQ(quota.exceeded(used, FleetUse::of(request, 2))->what, "tasks");
  used.subtract(held);
  used.subtract(held);
  EXPECT_EQ(used, FleetUse());
  // A gang of so many tasks that the product overflows is over any limit.
  request.memory_bytes = std::int64_t{1} << 50;
  quota = {};
  quota.memory_bytes = std::int64_t{1} << 50;
  EXPECT_EQ(quota.exceeded({}, FleetUse::of(request, 1 << 24))->what, "memory");
}

// B-5: a task is placed only on a worker that has its handler.
TEST(RequirementsTest, HandlersZonesCapabilitiesAndLabels) {
  WorkerSpec worker;
  worker.resources.cpu_millis = 4000;
  worker.zone = "eu-1";
  worker.handlers = {"dpo", "sft"};
  worker.capabilities = {"avx"};
  worker.labels = {{"rack", "b7"}};
  Requirements needs;
  EXPECT_TRUE(meets(worker, needs, ""));
  EXPECT_TRUE(meets(worker, needs, "sft"));
  EXPECT_FALSE(meets(worker, needs, "eval"));
  worker.programs = false;
  EXPECT_FALSE(meets(worker, needs, ""));
  needs.zone = "us-2";
  needs.capabilities = {"avx", "sgx"};
  needs.labels = {{"rack", "b8"}};
  EXPECT_EQ(unmet_requirements(worker, needs, "eval"),
            (std::vector<std::string>{"handler: 'eval' needed", "zone: 'us-2' needed, 'eu-1' available",
                                      "capability: 'sgx' needed", "label: rack=b8 needed"}));
  EXPECT_EQ(unmet_requirements(worker, {}, ""),
            std::vector<std::string>{"programs: a worker that runs programs needed"});
  TaskSpec spec;
  spec.type = "sft";
  EXPECT_EQ(needed_handler(spec), "sft");
  spec.program.emplace();
  EXPECT_EQ(needed_handler(spec), "");
}

TEST(ResourceFieldsTest, EveryMemberIsInItsList) {
  using namespace testing_support;
  expect_all_members_listed<NamedAmount>();
  expect_all_members_listed<Device>();
  expect_all_members_listed<DeviceRequest>();
  expect_no_member_between_fields<Amounts>();
  expect_no_member_between_fields<ResourceRequest>();
  expect_no_member_between_fields<ResourceUse>();
  expect_no_member_between_fields<Resources>();
  expect_no_member_between_fields<FleetUse>();
  expect_no_member_between_fields<Requirements>();
  // Each kind of amount is a member that the list has as well.
  Amounts amounts;
  for (const AmountKind& kind : kAmountKinds) amounts.*kind.member = 7;
  Amounts::fields(amounts, [](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::int64_t>) {
      EXPECT_EQ(member, 7) << name;
    }
  });
}

}  // namespace
}  // namespace rota::model
