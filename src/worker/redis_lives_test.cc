// A worker that is restarted under its name, over a real Redis: it does not run what its predecessor was sent.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bus/redis_testing.h"
#include "rota/worker.h"

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using bus::kSoon;

model::Assign assign_to(std::uint64_t task, std::uint64_t life) {
  model::Assign assign = bus::assign_of(task);
  assign.spec.type = "note";
  assign.spec.inputs = "{}";
  assign.resources.cpu_millis = 1000;
  assign.incarnation = model::Incarnation(life);
  return assign;
}

// Contract: U-1. The predecessor of a worker died before it took an assignment. The bus delivers it to the worker,
// which takes only what is for itself.
TEST(RedisLives, AnAssignmentForThePredecessor) {
  bus::RedisServer server;
  bus::in_runtime([&](fiber::Nursery& nursery) {
    const bus::RedisBusOptions options = bus::patient_options(server.url());
    const auto connect = [&](std::uint64_t life) {
      bus::RedisBusOptions own = options;
      own.process = life;
      auto end = bus::RedisWorkerEnd::open(net::real_network(), own, "w", nursery).value();
      EXPECT_TRUE(end->await_connected(kSoon).ok());
      return end;
    };
    auto host = bus::RedisHostEnd::open(net::real_network(), options, nursery).value();
    const auto next = [&] {
      auto delivery = bus::receive_soon(*host).value();
      EXPECT_TRUE(host->acknowledge(delivery.id).ok());
      return std::move(delivery.message);
    };
    {
      const auto predecessor = connect(1);
      ASSERT_TRUE(predecessor->send(model::Register{.incarnation = model::Incarnation(1)}).ok());
      ASSERT_TRUE(std::holds_alternative<model::Register>(next()));
      ASSERT_TRUE(host->send("w", assign_to(1, 1)).ok());
      ASSERT_TRUE(bus::receive_soon(*predecessor).ok());  // Never acknowledged.
    }
    WorkerOptions worker_options;
    worker_options.spec.name = "w";
    worker_options.spec.resources.cpu_millis = 1000;
    worker_options.spec.programs = false;
    worker_options.detect_resources = false;
    worker_options.incarnation = model::Incarnation(2);
    Worker worker(worker_options);
    std::vector<std::uint64_t> ran;
    ASSERT_TRUE(worker
                    .handle("note",
                            [&ran](TaskContext& task) {
                              ran.push_back(task.task().value());
                              return std::string("1");
                            })
                    .ok());
    const auto end = connect(2);
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { EXPECT_TRUE(worker.run(*end).ok()); });
      ASSERT_TRUE(host->send("w", assign_to(2, 2)).ok());
      for (bool ended = false; !ended;) {
        const model::FromWorker message = next();
        const auto* report = std::get_if<model::Report>(&message);
        ended = report != nullptr && report->is_final() && report->id.task.value() == 2;
      }
      ASSERT_TRUE(host->send("w", model::AcknowledgeReport{.id = assign_to(2, 2).id}).ok());
      worker.stop();
    });
    EXPECT_EQ(ran, std::vector<std::uint64_t>{2});
  });
}

}  // namespace
}  // namespace rota::worker
