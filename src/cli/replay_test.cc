// `rota replay` and `rota explain` as a user runs them: what they print, and their exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/policy_text.h"
#include "cli/subcommands.h"
#include "fleet/brain.h"
#include "fleet/record.h"
#include "host/recovery.h"
#include "ledger/disk_ledger.h"
#include "model/json.h"

namespace rota::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1'794'000'000 * kSecond;  // 2026-11-06T21:20:00Z

struct Said {
  int status = -1;
  std::string out;
  std::string err;
};

Said rota(const std::vector<std::string>& arguments) {
  Said said;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  said.status = run_command(subcommands(), arguments);
  said.out = ::testing::internal::GetCapturedStdout();
  said.err = ::testing::internal::GetCapturedStderr();
  return said;
}

// Replaces several spaces by one: the tests check the words of a table, not its widths.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  }
  return out;
}

// Two workers of a core; two tasks of ten seconds in one workflow, and one that needs both and runs when the log ends.
std::vector<fleet::Record> small_log() {
  std::vector<fleet::Record> log;
  fleet::Brain brain;
  const auto execute = [&](fleet::Command command, std::int64_t seconds) {
    Result<fleet::Record> record = brain.execute(std::move(command), kStart + seconds * kSecond);
    EXPECT_TRUE(record.ok()) << record.error().message;
    if (record.ok() && record->index > 0) log.push_back(std::move(*record));
  };
  for (const char* name : {"a", "b"}) {
    model::WorkerSpec worker;
    worker.name = name;
    worker.resources.cpu_millis = 1000;
    execute(fleet::RegisterWorker{worker, {}}, 0);
  }
  fleet::SubmitWorkflow submit;
  submit.workflow.name = "nightly";
  submit.workflow.templates.resize(1);
  submit.workflow.templates[0].spec.program.emplace().shell = "true";
  submit.workflow.stages = {model::Stage{"train"}, model::Stage{"report", 0, {0}}};
  submit.workflow.stages[0].items = {"{}", "{}"};
  execute(submit, 1);
  for (const std::uint32_t index : {0, 1}) {
    fleet::ReportEnded ended{model::TaskId(model::WorkflowId(1), index), model::AttemptNumber(1), {}};
    ended.outcome.end = model::AttemptEnd::kSucceeded;
    ended.outcome.started_ns = kStart + kSecond;
    ended.outcome.ended_ns = kStart + 11 * kSecond;
    execute(ended, 11);
  }
  return log;
}

std::string bytes_of(const std::vector<fleet::Record>& log) {
  std::string bytes;
  fleet::LogWriter writer(bytes);
  for (const fleet::Record& record : log) writer.append(record);
  writer.finish();
  return bytes;
}

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() {
    std::string name = ::testing::TempDir() + "rota_replay_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ReplayTest() override { std::filesystem::remove_all(folder_); }

  std::string file(std::string_view name, std::string_view bytes) const {
    const std::string path = folder_ + "/" + std::string(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // The state folder of a run.
  std::string state(const std::vector<fleet::Record>& log, std::uint64_t compacted = 0) const {
    const std::string path = folder_ + "/state";
    std::filesystem::create_directory(path);
    ledger::DiskOptions options;
    options.path = path + "/ledger.db";
    auto ledger = ledger::DiskLedger::open(options);
    EXPECT_TRUE(ledger.ok()) << ledger.error().message;
    Hash128 chain = fleet::first_chain();
    fleet::Brain brain;
    std::string snapshot;
    for (const fleet::Record& record : log) {
      ledger::RecordBytes bytes;
      bytes.index = record.index;
      chain = fleet::encode_record(record, chain, bytes.bytes);
      EXPECT_TRUE((*ledger)->append(std::vector{bytes}).ok());
      EXPECT_TRUE(brain.apply(record).ok());
      if (record.index == compacted) snapshot = host::encode_snapshot(brain, chain);
    }
    if (compacted > 0) {
      EXPECT_TRUE((*ledger)->save_snapshot({compacted, snapshot}).ok());
      EXPECT_TRUE((*ledger)->compact(compacted).ok());
    }
    return path;
  }

  std::string folder_;
};

// B-2: a log verifies, from a file and from a state folder, and says what it came to.
TEST_F(ReplayTest, Verifies) {
  const std::vector<fleet::Record> log = small_log();
  for (const std::string& path : {file("a.log", bytes_of(log)), state(log), folder_ + "/state/ledger.db"}) {
    const Said said = rota({"replay", path});
    EXPECT_EQ(said.status, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("Verified: 5 records, each decided again with the same result"));
    EXPECT_THAT(said.out, HasSubstr(log.back().post.to_string()));
    EXPECT_THAT(squeezed(said.out), HasSubstr("makespan 10s\n"));
  }
}

// S-3: another policy beside it; in JSON, too.
TEST_F(ReplayTest, WhatIf) {
  const std::string path = file("a.log", bytes_of(small_log()));
  const Said said = rota({"replay", path, "--policy", "mode=static_worker,lambda_other=0.2", "--policy",
                          "selection=first_fit,elastic.enable=true"});
  EXPECT_EQ(said.status, 0) << said.err;
  // The third task takes the mean of its type, ten seconds.
  EXPECT_THAT(squeezed(said.out), HasSubstr("makespan 10s 20s 30s 20s\n"));
  EXPECT_THAT(said.out, HasSubstr("policy 1: mode=static_worker,lambda_other=0.2\n"));
  const Said json = rota({"replay", path, "--policy", "mode=static_worker", "--json"});
  EXPECT_EQ(json.status, 0);
  EXPECT_TRUE(model::json_validate(json.out).ok()) << json.out;
  EXPECT_THAT(json.out, HasSubstr(R"("verified":true,"records":5)"));
  EXPECT_THAT(json.out, HasSubstr(R"({"name":"mode=static_worker","figures":{"records":)"));
  EXPECT_THAT(json.out, HasSubstr(R"("makespan_ns":30000000000)"));
}

// B-2, B-1: a record that would be decided otherwise: which, what then, what now, why; exit status 4.
TEST_F(ReplayTest, ShowsTheFirstDivergence) {
  std::vector<fleet::Record> log = small_log();
  for (fleet::Event& event : log[2].events) {
    if (auto* e = std::get_if<fleet::TaskAssigned>(&event)) {
      e->reasoning.score += 1;
      break;
    }
  }
  const std::string path = file("a.log", bytes_of(log));
  const Said said = rota({"replay", path});
  EXPECT_EQ(said.status, 4);
  EXPECT_THAT(said.err, HasSubstr("record 3 (SubmitWorkflow), event 2, would be decided otherwise now"));
  EXPECT_THAT(said.err, HasSubstr("then: TaskAssigned task=wf-1.0 attempt=1"));
  EXPECT_THAT(said.err, HasSubstr("now: TaskAssigned task=wf-1.0 attempt=1"));
  EXPECT_THAT(said.err, HasSubstr("command: SubmitWorkflow"));
  const Said json = rota({"replay", path, "--json"});
  EXPECT_EQ(json.status, 4);
  EXPECT_THAT(json.out, HasSubstr(R"({"verified":false,"error":{"code":"Conflict")"));
  EXPECT_TRUE(model::json_validate(json.out).ok()) << json.out;
  // What was decided is history all the same: reasons change no state.
  EXPECT_EQ(rota({"replay", path, "--no-verify"}).status, 0);
}

// B-2: damage is found with its position; exit status 10. What is not there is 3, what cannot be used 2 or 4.
TEST_F(ReplayTest, SaysWhatIsWrongWithTheLog) {
  std::string bytes = bytes_of(small_log());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  const Said changed = rota({"replay", file("changed.log", bytes)});
  EXPECT_EQ(changed.status, 10);
  EXPECT_THAT(changed.err, HasSubstr("changed.log: bytes "));
  EXPECT_THAT(changed.err, HasSubstr("was changed"));
  const Said cut = rota({"replay", file("cut.log", std::string_view(bytes).substr(0, 40))});
  EXPECT_EQ(cut.status, 10);
  EXPECT_THAT(cut.err, HasSubstr("cut off"));
  EXPECT_EQ(rota({"replay", file("text.log", "hello")}).status, 10);
  EXPECT_EQ(rota({"replay", file("empty.log", "")}).status, 10);
  const Said none = rota({"replay", folder_ + "/none"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("No such file"));
  std::filesystem::create_directory(folder_ + "/empty");
  const Said empty = rota({"replay", folder_ + "/empty"});
  EXPECT_EQ(empty.status, 3);
  EXPECT_THAT(empty.err, HasSubstr("not a state folder"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/empty/ledger.db")) << "it only looks";
}

// L-4, B-2: a ledger whose first records were compacted is verified, and explained, from its snapshot on.
TEST_F(ReplayTest, BeginsWithTheSnapshot) {
  const std::vector<fleet::Record> log = small_log();
  const std::string path = state(log, 3);
  const Said said = rota({"replay", path});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("Verified: 2 records, each"));
  EXPECT_THAT(said.out, HasSubstr(log.back().post.to_string()));
  EXPECT_THAT(said.out, HasSubstr("the 3 records before it were compacted"));
  const Said other = rota({"replay", path, "--policy", "mode=static_worker"});
  EXPECT_EQ(other.status, 4);
  EXPECT_THAT(other.err, HasSubstr("starts at record 4"));
  EXPECT_THAT(rota({"explain", path, "report"}).out, HasSubstr("wf-1.2 (report) runs on '"));
  const Said before = rota({"explain", path, "report", "--at", "2026-11-06T21:20:02Z"});
  EXPECT_EQ(before.status, 3);
  EXPECT_THAT(before.err, HasSubstr("compacted"));
}

// C-2: a ledger that another has open is read all the same, and its user is not disturbed.
TEST_F(ReplayTest, ReadsWhatIsInUse) {
  const std::string path = state(small_log());
  const auto ledger = ledger::DiskLedger::open({.path = path + "/ledger.db"});
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(rota({"replay", path}).status, 0);
  EXPECT_EQ(rota({"explain", path, "report"}).status, 0);
  EXPECT_TRUE((*ledger)->close().ok());
}

// B-2: what is no policy is said before the log is read.
TEST_F(ReplayTest, RefusesWhatIsNoPolicy) {
  const auto refused = [&](const std::string& policy) {
    const Said said = rota({"replay", folder_ + "/none", "--policy", policy});
    EXPECT_EQ(said.status, 2) << policy << said.err;
    EXPECT_THAT(said.err, Not(HasSubstr("none'")));
    return said.err;
  };
  EXPECT_THAT(refused("mode=static_wroker"), HasSubstr("static_worker"));
  EXPECT_THAT(refused("lamda_other=0.2"), HasSubstr("did you mean 'lambda_other'?"));
  EXPECT_THAT(refused("lambda_other=2"), HasSubstr("a fraction from 0 to 1"));
  EXPECT_THAT(refused("lambda_other=0.1234567891"), HasSubstr("at most nine digits"));
  EXPECT_THAT(refused("lambda_other"), HasSubstr("not of the form name=value"));
  EXPECT_THAT(refused("merge_most=0"), HasSubstr("merge_most"));
}

TEST(PolicyText, Fractions) {
  EXPECT_EQ(*policy_fields("lambda_other=0.2"), "lambda_other=200000000");
  EXPECT_EQ(*policy_fields("lambda_other=1,jitter=0"), "lambda_other=1000000000 jitter=0");
  EXPECT_EQ(*policy_fields("jitter=0.000000001"), "jitter=1");
  EXPECT_EQ(*policy_fields("elastic.enable=true,merge=false,elastic.poll_ms=5"),
            "merge=false elastic={enable=true poll_ms=5}");
  for (const char* wrong : {"", ",", "a", "=1", "a=1,", "lambda_other=0.", "lambda_other=.5", "lambda_other=1.1",
                            "lambda_other=-0", "lambda_other=", "a={b=1}"}) {
    EXPECT_FALSE(policy_fields(wrong).ok()) << wrong;
  }
}

// B-20: now, and at a past moment, by id and by name.
TEST_F(ReplayTest, Explains) {
  const std::vector<fleet::Record> log = small_log();
  for (const std::string& path : {file("a.log", bytes_of(log)), state(log)}) {
    const Said now = rota({"explain", "nightly/report", "--log", path});
    EXPECT_EQ(now.status, 0) << now.err;
    EXPECT_THAT(now.out, HasSubstr("wf-1.2 (report) runs on '"));
    EXPECT_THAT(now.out, HasSubstr("the best score of 2: 0.5 * throughput 1 - 0.5 * cost 1 + jitter "));
    for (const char* at : {"5s", "2026-11-06T21:20:05Z", "2026-11-06T21:20:05.25Z"}) {
      const Said then = rota({"explain", "wf-1.2", "--log", path, "--at", at});
      EXPECT_EQ(then.status, 0) << then.err;
      EXPECT_THAT(then.out, HasSubstr("waits for 1 stage that has not succeeded: train (of 2 tasks: 2 running)"));
    }
    const Said json = rota({"explain", "train[1]", "--log", path, "--json"});
    EXPECT_TRUE(model::json_validate(json.out).ok()) << json.out;
    EXPECT_THAT(json.out, HasSubstr(R"("reason":"succeeded")"));
  }
}

// B-20: and what cannot be explained says why not.
TEST_F(ReplayTest, ExplainSaysWhatIsWrong) {
  const std::string path = file("a.log", bytes_of(small_log()));
  EXPECT_EQ(rota({"explain", "reprot", "--log", path}).status, 3);
  EXPECT_THAT(rota({"explain", "reprot", "--log", path}).err, HasSubstr("did you mean 'report'?"));
  EXPECT_EQ(rota({"explain", "train", "--log", path}).status, 2);
  EXPECT_EQ(rota({"explain", "train[0]", "--log", path, "--at", "0s"}).status, 3) << "it was not there yet";
  EXPECT_EQ(rota({"explain", "train[0]", "--log", path, "--at", "2020-01-01T00:00:00Z"}).status, 3);
  for (const char* at : {"soon", "2026-13-01T00:00:00Z", "2026-11-06T21:20:05", "2026-11-06", "-5s"}) {
    const Said said = rota({"explain", "train[0]", "--log", path, "--at=" + std::string(at)});
    EXPECT_EQ(said.status, 2) << at << said.out;
    EXPECT_THAT(said.err, HasSubstr("write it in UTC")) << at;
  }
  EXPECT_EQ(rota({"explain", "train[0]", "--log", folder_ + "/none"}).status, 3);
  EXPECT_EQ(rota({"explain", path}).status, 2);
  EXPECT_THAT(rota({"explain", path}).err, HasSubstr("which task?"));
  EXPECT_EQ(rota({"explain", "train[0]", "report"}).status, 2);
}

}  // namespace
}  // namespace rota::cli
