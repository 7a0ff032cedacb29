// A worker against a host that a test plays: what the tests of rota::Worker share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bus/local.h"
#include "rota/fiber.h"
#include "rota/worker.h"

namespace rota::worker::testing {

using namespace std::chrono_literals;
using bus::Acknowledge;
using bus::Assign;
using bus::Report;
using bus::ReportKind;
using bus::Stop;
using bus::StopKind;
using bus::TaskKind;

inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

inline WorkerOptions handlers_only() {
  WorkerOptions options;
  options.hardware = Hardware{.cpu_millis = 2000, .memory_bytes = kGiB, .gpus = 2};
  options.commands = false;
  return options;
}

inline WorkerOptions with_commands() {
  WorkerOptions options = handlers_only();
  options.commands = true;
  options.heartbeat_every = 50ms;
  return options;
}

inline Assign handler_task(std::uint64_t task, const std::string& type, std::string inputs = "{}") {
  Assign assign;
  assign.task = task;
  assign.attempt = 1;
  assign.term = 1;
  assign.kind = TaskKind::kHandler;
  assign.type = type;
  assign.spec = "{\"inputs\":" + inputs + "}";
  assign.cpu_millis = 1000;
  return assign;
}

inline Assign command_task(std::uint64_t task, const std::string& script) {
  Assign assign = handler_task(task, "");
  assign.kind = TaskKind::kCommand;
  assign.spec = "{\"run\":\"" + script + "\"}";
  return assign;
}

inline std::string_view name_of(ReportKind kind) {
  constexpr std::string_view kNames[] = {"started", "progress",  "checkpoint", "log",       "cache",
                                         "output",  "succeeded", "failed",     "cancelled", "preempted"};
  return kNames[static_cast<std::size_t>(kind)];
}

// The host's part: sends, and collects what comes.
class Host {
 public:
  Host(bus::LocalBus& bus, std::string worker) : bus_(bus), worker_(std::move(worker)) {}

  void send(bus::ToWorker message) { ASSERT_TRUE(bus_.host().send(worker_, std::move(message)).ok()); }
  // The next report of any task, acknowledged if it is final and we acknowledge.
  Report next() {
    for (;;) {
      Result<bus::DeliveryFromWorker> delivery = bus_.host().receive(100s);
      if (!delivery.ok()) {
        ADD_FAILURE() << delivery.error().to_string();
        return {};
      }
      EXPECT_TRUE(bus_.host().acknowledge(delivery->id).ok());
      if (const auto* hello = std::get_if<bus::Register>(&delivery->message)) hellos.push_back(*hello);
      if (std::holds_alternative<bus::Heartbeat>(delivery->message)) ++heartbeats;
      if (auto* report = std::get_if<Report>(&delivery->message)) {
        if (is_final(report->kind) && acknowledging) {
          send(Acknowledge{.task = report->task, .attempt = report->attempt, .term = report->term});
        }
        return *report;
      }
    }
  }
  // "7 succeeded {...}".
  std::string next_text() {
    const Report report = next();
    std::string text = std::to_string(report.task) + " " + std::string(name_of(report.kind));
    if (report.kind == ReportKind::kProgress) text += " " + std::to_string(report.permille);
    if (!report.text.empty()) text += " " + report.text;
    if (!report.json.empty()) text += " " + report.json;
    return text;
  }
  // Until the final report of this task.
  Report final(std::uint64_t task) {
    for (;;) {
      Report report = next();
      if (report.task == 0 || (report.task == task && is_final(report.kind))) return report;
    }
  }

  bool acknowledging = true;
  std::vector<bus::Register> hellos;
  int heartbeats = 0;

 private:
  bus::LocalBus& bus_;
  std::string worker_;
};

// A worker that serves a local bus while `body` plays the host; then it is stopped and must end by itself.
template <class Prepare, class Body>
void with_worker(WorkerOptions options, Prepare&& prepare, Body&& body) {
  bus::LocalBus bus;
  auto end = bus.connect("w").value();
  Worker worker(std::move(options));
  prepare(worker);
  fiber::with_scope([&](fiber::Nursery& n) {
    n.launch([&] {
      const Result<void> ran = worker.run(*end);
      EXPECT_TRUE(ran.ok()) << ran.error().to_string();
    });
    Host host(bus, "w");
    body(host, worker);
    worker.stop();
  });
}

}  // namespace rota::worker::testing
