// A worker against a host that a test plays: what the tests of rota::Worker share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bus/local.h"
#include "rota/fiber.h"
#include "rota/worker.h"

namespace rota::worker::testing {

using namespace std::chrono_literals;
using model::AcknowledgeReport;
using model::Assign;
using model::AttemptAction;
using model::AttemptEnd;
using model::AttemptId;
using model::AttemptNumber;
using model::AttemptOutcome;
using model::ControlAttempt;
using model::Report;
using model::TaskId;
using model::Term;

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr std::int64_t kWall = 1'704'067'200'000'000'000;  // 2024-01-01, when a worker of a test starts.

inline WorkerOptions handlers_only() {
  WorkerOptions options;
  options.spec.name = "w";
  options.spec.resources.cpu_millis = 2000;
  options.spec.resources.memory_bytes = kGiB;
  options.spec.resources.gpus = {{"a100", kGiB}, {"a100", kGiB}};
  options.spec.programs = false;
  options.detect_resources = false;
  options.wall_ns = kWall;
  return options;
}

inline WorkerOptions with_programs() {
  WorkerOptions options = handlers_only();
  options.spec.programs = true;
  options.heartbeat_every = 50ms;
  return options;
}

inline AttemptId first_attempt(std::uint64_t task) { return {TaskId(task), AttemptNumber(1)}; }

inline Assign handler_task(std::uint64_t task, const std::string& type, std::string inputs = "{}") {
  Assign assign;
  assign.id = first_attempt(task);
  assign.term = Term(1);
  assign.spec.type = type;
  assign.spec.inputs = std::move(inputs);
  assign.resources.cpu_millis = 1000;
  return assign;
}

inline Assign program_task(std::uint64_t task, const std::string& script) {
  Assign assign = handler_task(task, "shell");
  assign.spec.program.emplace().shell = script;
  return assign;
}

inline ControlAttempt control(std::uint64_t task, AttemptAction action = AttemptAction::kCancel) {
  return {.id = first_attempt(task), .term = Term(1), .action = action};
}

// "started", "progress", ..., and of a final report its end: "succeeded".
inline std::string_view kind_of(const Report& report) {
  constexpr std::string_view kNames[] = {"started", "progress", "checkpoint", "log", "cached", "output"};
  if (const auto* ended = std::get_if<model::Ended>(&report.body)) return to_string(ended->outcome.end);
  return kNames[report.body.index()];
}

// The outcome of a final report.
inline const AttemptOutcome& outcome_of(const Report& report) {
  static const AttemptOutcome none;
  const auto* ended = std::get_if<model::Ended>(&report.body);
  EXPECT_NE(ended, nullptr) << "not a final report: " << kind_of(report);
  return ended == nullptr ? none : ended->outcome;
}

// What a report that is not final says.
inline std::string text_of(const Report& report) {
  struct Visitor {
    std::string operator()(const model::Started&) const { return {}; }
    std::string operator()(const model::Progress& p) const {
      return std::to_string(p.permille) + (p.text.empty() ? "" : " " + p.text);
    }
    std::string operator()(const model::Checkpoint& c) const { return c.json; }
    std::string operator()(const model::LogLine& l) const { return l.text; }
    std::string operator()(const model::Cached& c) const { return c.item; }
    std::string operator()(const model::Output& o) const { return o.bytes; }
    std::string operator()(const model::Ended& e) const {
      const AttemptOutcome& outcome = e.outcome;
      return outcome.message + (outcome.message.empty() || outcome.result.empty() ? "" : " ") + outcome.result;
    }
  };
  return std::visit(Visitor(), report.body);
}

// The host's part: sends, and collects what comes.
class Host {
 public:
  Host(bus::LocalBus& bus, std::string worker) : bus_(bus), worker_(std::move(worker)) {}

  void send(model::ToWorker message) { ASSERT_TRUE(bus_.host().send(worker_, std::move(message)).ok()); }
  // The next message. A final report is acknowledged unless `acknowledging` is false.
  model::FromWorker next_message() {
    Result<bus::DeliveryFromWorker> delivery = bus_.host().receive(100s);
    if (!delivery.ok()) {
      ADD_FAILURE() << delivery.error().to_string();
      return Report{};
    }
    EXPECT_TRUE(bus_.host().acknowledge(delivery->id).ok());
    if (const auto* hello = std::get_if<model::Register>(&delivery->message)) hellos.push_back(*hello);
    if (std::holds_alternative<model::Heartbeat>(delivery->message)) ++heartbeats;
    if (std::holds_alternative<model::Leave>(delivery->message)) ++leaves;
    if (const auto* report = std::get_if<Report>(&delivery->message)) {
      if (report->is_final() && acknowledging) {
        send(AcknowledgeReport{.id = report->id, .term = report->term, .assigned_ns = report->assigned_ns});
      }
    }
    return std::move(delivery->message);
  }
  // The next report of any task.
  Report next() {
    for (;;) {
      model::FromWorker message = next_message();
      if (auto* report = std::get_if<Report>(&message)) return std::move(*report);
    }
  }
  // "7 succeeded {...}".
  std::string next_text() {
    const Report report = next();
    const std::string text = text_of(report);
    return std::to_string(report.id.task.value()) + " " + std::string(kind_of(report)) +
           (text.empty() ? "" : " " + text);
  }
  // The final report of this task; other reports before it are skipped.
  Report final_report(std::uint64_t task) {
    for (;;) {
      Report report = next();
      if (report.id.task.is_none() || (report.id.task.value() == task && report.is_final())) return report;
    }
  }
  AttemptOutcome final(std::uint64_t task) { return outcome_of(final_report(task)); }
  // Skips reports until one of this kind.
  Report until(std::string_view kind) {
    for (;;) {
      Report report = next();
      if (report.id.task.is_none() || kind_of(report) == kind) return report;
    }
  }

  bool acknowledging = true;
  std::vector<model::Register> hellos;
  int heartbeats = 0;
  int leaves = 0;

 private:
  bus::LocalBus& bus_;
  std::string worker_;
};

// A worker that serves a local bus while `body` plays the host; then it is stopped and must end without help.
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
