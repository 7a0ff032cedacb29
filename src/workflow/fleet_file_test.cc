// What a file of a fleet means. What is said about wrong ones is in golden/fleet*.yaml.
#include "workflow/fleet_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rota::workflow {
namespace {

using testing::SizeIs;

model::WorkerSpec half_a_core(std::string name) {
  model::WorkerSpec spec{.name = std::move(name)};
  spec.resources.cpu_millis = 500;
  return spec;
}

TEST(FleetFile, EveryKey) {
  const FleetFile file = read_fleet({"fleet.yaml", R"(
apiVersion: rota/v1
kind: Fleet
workers:
  - name: trainer
    count: 2
    cpu: 16
    memory: 64GiB
    gpu: {count: 2, type: A100, memory: 80GiB}
    zone: eu-1
    cost_per_hour: 3.20
    power_watts: 350.5
    named: {licence: 2}
    labels: {rack: b7, a: 1}
    capabilities: [docker, cuda]
  - name: small
    cpu: 500m
  - name: alone
    count: 1
)"});
  for (const Problem& problem : file.problems) ADD_FAILURE() << to_string("f", problem);
  ASSERT_THAT(file.workers, SizeIs(4));
  constexpr std::int64_t kGiB = 1LL << 30;
  model::WorkerSpec trainer{.name = "trainer-2",
                            .zone = "eu-1",
                            .cost_microdollars_per_hour = 3'200'000,
                            .power_milliwatts = 350'500,
                            .capabilities = {"docker", "cuda"},
                            .labels = {{"a", "1"}, {"rack", "b7"}}};
  trainer.resources.cpu_millis = 16'000;
  trainer.resources.memory_bytes = 64 * kGiB;
  trainer.resources.named = {{"licence", 2}};
  trainer.resources.gpus = {{"A100", 80 * kGiB}, {"A100", 80 * kGiB}};
  EXPECT_EQ(file.workers[1], trainer);
  EXPECT_EQ(file.workers[0].name, "trainer-1");
  EXPECT_EQ(file.workers[2], half_a_core("small"));
  EXPECT_EQ(file.workers[3].name, "alone-1");
}

TEST(FleetFile, JsonIsTheSame) {
  const FleetFile file = read_fleet({"f", R"({"workers": [{"name": "a", "cpu": 0.5, "gpu": {"count": 0}}]})"});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.workers.at(0), half_a_core("a"));
}

}  // namespace
}  // namespace rota::workflow
