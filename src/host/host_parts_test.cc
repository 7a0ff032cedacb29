// Smaller parts of a host: several buses, the density of submissions, the output of other machines.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "host/density.h"
#include "host/host_settings.h"
#include "host/host_testing.h"
#include "host/output_store.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

// Contract: U-1. Workers on two buses serve one host; each is answered on its own bus, also after a restart of the
// host.
TEST(Host, TwoBuses) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus near;
    bus::LocalBus far;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Puppet here(near, "here");
      Puppet there(far, "there");
      auto host = std::make_unique<Host>(ledger, std::vector<bus::HostEnd*>{&near.host(), &far.host()}, options());
      auto task = nursery.spawn([&] { return host->run(); });
      const auto count = [&] {
        int workers = 0;
        EXPECT_TRUE(host->inspect([&](const fleet::State& state) {
                          workers = 0;
                          state.each_worker([&](const fleet::Worker&) { ++workers; });
                        })
                        .ok());
        return workers;
      };
      here.hello(1);
      there.hello(2);
      while (count() < 2) (void)fiber::sleep_for(1ms);
      model::WorkflowSpec spec = chain({"a", "b"});
      spec.stages[1].needs.clear();
      spec.templates.push_back(spec.templates[0]);
      spec.templates[0].pinned = "here";
      spec.templates[1].pinned = "there";
      spec.stages[1].use = 1;
      ASSERT_TRUE(host->execute(fleet::SubmitWorkflow{"1", spec}).ok());
      EXPECT_EQ(here.next_assign().id.task, TaskId(WorkflowId(1), 0));
      EXPECT_EQ(there.next_assign().id.task, TaskId(WorkflowId(1), 1));
      task.cancel();
      task.wait();
      // The next host does not know where each of them is until it hears from it.
      host = std::make_unique<Host>(ledger, std::vector<bus::HostEnd*>{&near.host(), &far.host()}, options());
      task = nursery.spawn([&] { return host->run(); });
      ASSERT_TRUE(host->execute(fleet::Control{fleet::Action::kCancel, WorkflowId(1), {}}).ok());
      for (Puppet* puppet : {&here, &there}) {
        // Other messages come first if the former host died before it acknowledged the registrations: then the bus
        // delivers them again, and the worker is sent its assignment again.
        std::optional<model::ControlAttempt> stop;
        while (!stop) {
          const model::ToWorker message = puppet->next();
          const auto* control = std::get_if<model::ControlAttempt>(&message);
          if (control != nullptr && control->action == model::AttemptAction::kCancel) stop = *control;
        }
        puppet->report_end({.id = stop->id, .assigned_ns = stop->assigned_ns}, AttemptEnd::kCancelled);
      }
      const auto ended = [&] {
        bool over = false;
        EXPECT_TRUE(host->inspect([&](const fleet::State& state) {
                          over = state.at(WorkflowId(1)).outcome == Outcome::kCancelled;
                        })
                        .ok());
        return over;
      };
      while (!ended()) (void)fiber::sleep_for(1ms);
      host->stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

// Contract: U-1. A worker on another bus that has the name of the host's own worker is ignored: it takes over neither
// the name nor the tasks. When the host's own is gone, it may have the name.
TEST(Host, OneNameOnTwoBuses) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus near;
    bus::LocalBus far;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Puppet here(near, "w");
      Puppet there(far, "w");
      Host host(ledger, std::vector<bus::HostEnd*>{&near.host(), &far.host()}, options());
      auto task = nursery.spawn([&] { return host.run(); });
      const auto lives_as = [&](std::uint64_t incarnation) {
        bool lives = false;
        EXPECT_TRUE(host.inspect([&](const fleet::State& state) {
                          const fleet::Worker* worker = state.find_worker("w");
                          lives = worker != nullptr && worker->reachable && worker->lives_as(Incarnation(incarnation));
                        })
                        .ok());
        return lives;
      };
      here.hello(1);
      while (!lives_as(1)) (void)fiber::sleep_for(1ms);
      ASSERT_TRUE(host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}).ok());
      const Assign assign = here.next_assign();
      there.hello(2);
      Puppet witness(far, "witness");  // Its message comes after the other one's.
      witness.hello(3);
      bool seen = false;
      while (!seen) {
        ASSERT_TRUE(
            host.inspect([&](const fleet::State& state) { seen = state.find_worker("witness") != nullptr; }).ok());
      }
      EXPECT_TRUE(lives_as(1));
      here.report_end(assign, AttemptEnd::kSucceeded);
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(here.next()));
      ASSERT_TRUE(host.execute(fleet::WorkerLost{"w", "it ended"}).ok());
      there.hello(2);
      while (!lives_as(2)) (void)fiber::sleep_for(1ms);
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

// Contract: H-3.
TEST(Density, Buckets) {
  Density density(60);
  fleet::Record record;
  record.wall_ns = 120'000'000'000;
  fleet::RegisterWorker registered;
  registered.worker.name = "w";
  record.command = registered;
  record.events = {fleet::WorkerRegistered{model::WorkerId(1)}, fleet::WorkerRegistered{model::WorkerId(2)}};
  density.see(record);
  record.wall_ns = 185'000'000'000;
  fleet::SubmitWorkflow submitted;
  submitted.workflow = chain({"a", "b"});
  submitted.workflow.stages[1].items = {"1", "2", "3"};
  record.command = submitted;
  record.events = {fleet::WorkflowAccepted{WorkflowId(1)}};
  density.see(record);
  density.see(record);
  record.wall_ns = 300'000'000'000;
  record.command = fleet::WorkerLost{"w", ""};
  record.events = {fleet::WorkerChanged{model::WorkerId(1), fleet::WorkerChange::kUnreachable}};
  density.see(record);
  EXPECT_TRUE(density.is_changed());
  EXPECT_EQ(density.to_json(), R"({"bucket_sec":60,"submissions":[[180,8]],"active_workers":[[120,2],[300,1]]})"
                               "\n");
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Contract: U-3. Pieces of a program's output are kept in their places, up to the bound: also if the host is restarted
// and gets some of them again, in another order.
TEST(OutputStore, KeepsAndBounds) {
  const std::string folder = "/tmp/rota-output-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  fiber::Runtime runtime({.worker_count = 1});
  const model::AttemptId id{TaskId(WorkflowId(1), 2), AttemptNumber(3)};
  const auto write = [&](std::uint64_t most, const std::vector<model::Output>& pieces) {
    runtime.run([&] {
      OutputStore store(folder, most);
      fiber::with_scope([&](fiber::Nursery& nursery) {
        for (const model::Output& piece : pieces) store.offer(id, piece);
        nursery.launch([&] { store.run(); });
        store.close();
      });
    });
    return content_of(folder + "/" + OutputStore::file_name(id));
  };
  EXPECT_EQ(write(100, {{.bytes = "one\n"}, {.bytes = "two\n", .position = 4}}), "one\ntwo\n");
  EXPECT_EQ(write(100, {{.bytes = "two\n", .position = 4}, {.bytes = "four\n", .position = 14}}).size(), 19U);
  EXPECT_EQ(write(100, {{.bytes = "three\n", .position = 8}, {.bytes = "one\n"}}), "one\ntwo\nthree\nfour\n");
  const std::string full = write(22, {{.bytes = "fivefive\n", .position = 19}, {.bytes = "six\n", .position = 28}});
  EXPECT_TRUE(full.starts_with("one\ntwo\nthree\nfour\nfiv\n[rota: the output is longer")) << full;
  EXPECT_EQ(full.find("six"), std::string::npos);
  EXPECT_EQ(write(22, {{.bytes = "four\n", .position = 14}, {.bytes = "six\n", .position = 28}}), full);
  std::filesystem::remove_all(folder);
}

// Contract: H-4. Every name of the source document that is about a host's metrics works.
TEST(HostSettings, NamesInTheEnvironment) {
  SettingsTable table;
  const HostSettings rows(table);
  const SettingsLoad load = load_settings(table, {.arguments = {"--state=/x", "--local-workers", "0"},
                                                  .environment = {{"HOST_METRICS_ENABLE_DENSITY_PLOT", "true"},
                                                                  {"HOST_METRICS_DIR", "/m"},
                                                                  {"HOST_METRICS_DENSITY_BUCKET_SEC", "5"},
                                                                  {"ROTA_REDIS", "redis://h"},
                                                                  {"ROTA_HOST_STATE", "/y"}}});
  ASSERT_TRUE(load.ok()) << load.status().error().message;
  const HostConfig config = rows.config(load.settings);
  EXPECT_TRUE(config.density);
  EXPECT_EQ(config.metrics_directory, "/m");
  EXPECT_EQ(config.density_bucket_sec, 5);
  EXPECT_EQ(config.redis, "redis://h");
  EXPECT_EQ(config.state, "/x");
  EXPECT_EQ(config.local_workers, 0);
}

}  // namespace
}  // namespace rota::host
