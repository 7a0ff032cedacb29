// A brain that is driven by the lines of a scenario (scenario_script_test.h), and keeps its log.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/brain.h"
#include "fleet/scenario_script_test.h"

namespace rota::fleet::testing_support {

class ScriptBrain {
 public:
  static constexpr std::int64_t kStartNs = 1'000'000'000;

  explicit ScriptBrain(std::string_view text) { run(text); }

  // Every command must be accepted.
  void run(std::string_view text) {
    std::vector<std::string> after;
    const auto blocks = parse_script(std::string(text) + "----\n", after);
    ASSERT_TRUE(blocks.ok()) << blocks.error().message;
    for (const ScriptBlock& block : *blocks) {
      for (ScriptCommand script : block.parsed) {
        ASSERT_TRUE(take_time(script.line, kStartNs, now_ns_).ok());
        Result<Command> command = script_command(script, brain_.state());
        ASSERT_TRUE(command.ok()) << script.line.text << ": " << command.error().message;
        Result<Record> record = brain_.execute(std::move(*command), now_ns_);
        ASSERT_TRUE(record.ok()) << script.line.text << ": " << record.error().message;
        if (record->index > 0) log_.push_back(std::move(*record));
      }
    }
  }

  [[nodiscard]] const std::vector<Record>& log() const { return log_; }
  [[nodiscard]] const State& state() const { return brain_.state(); }
  [[nodiscard]] std::int64_t now_ns() const { return now_ns_; }

 private:
  Brain brain_;
  std::vector<Record> log_;
  std::int64_t now_ns_ = kStartNs;
};

}  // namespace rota::fleet::testing_support
