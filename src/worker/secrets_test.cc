// Contract: U-7. The worker looks the secrets of a task up when its program starts, and masks them in everything that
// the program writes.
#include "worker/secrets.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/secret_file.h"
#include "worker/fingerprint.h"
#include "worker/process_testing.h"
#include "worker/program.h"
#include "worker/task_check.h"

namespace rota::worker {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::in_runtime;
using ::testing::Not;
using testing::read_text;
using testing::write_text;

constexpr const char* kValue = "canary-7f3a9c51";

struct Recorded : ProgramEvents {
  void on_progress(std::uint32_t, const std::string& message) override { all += "progress " + message + "\n"; }
  void on_checkpoint(const std::string& json) override { all += "checkpoint " + json + "\n"; }
  void on_log(const std::string& text) override { all += "log " + text + "\n"; }
  void on_cached(const std::string& item) override { all += "cached " + item + "\n"; }
  void on_output(bool, std::string bytes, std::uint64_t) override { output += bytes; }
  std::string all;
  std::string output;
};

// A folder of secrets with the right modes.
struct Store {
  Folder folder;
  void put(const std::string& name, const std::string& value, ::mode_t mode = 0600) const {
    write_text(folder / name, value);
    ::chmod((folder / name).c_str(), mode);
  }
};

struct Bench {
  Folder folder;
  GuardPool guards;
  SecretSources sources;
  Recorded events;
  std::uint64_t next = 1;

  model::AttemptOutcome end(const std::string& shell, std::vector<model::SecretVariable> variables) {
    const Secrets secrets(sources);
    const ProgramPlace place{.directory = folder.path(),
                             .environment = {"PATH=/usr/local/bin:/usr/bin:/bin"},
                             .stream_output = true,
                             .secrets = &secrets};
    model::TaskSpec spec;
    spec.program.emplace().shell = shell;
    spec.program->secrets = std::move(variables);
    events = {};
    ProgramRun run(guards, place, {.id = {model::TaskId(next++), model::AttemptNumber(1)}, .spec = std::move(spec)},
                   events);
    return run.wait().value().outcome;
  }
  // Everything that the worker kept or passed on.
  std::string seen(const model::AttemptOutcome& outcome) const {
    const std::string log = outcome.log_path.empty() ? "" : read_text(outcome.log_path);
    return events.all + events.output + log + outcome.result + outcome.message;
  }
};

const std::vector<model::SecretVariable> kToken{{"TOKEN", "hf", ""}};

TEST(Secrets, AProgramGetsTheValueAndNothingThatItWritesHasIt) {
  in_runtime([] {
    Store store;
    store.put("hf", std::string(kValue) + "\n");
    Bench bench;
    bench.sources.directory = store.folder.path();
    const model::AttemptOutcome end = bench.end(
        "test \"$TOKEN\" = canary-7f3a9c51 || exit 3\n"
        "echo \"out $TOKEN\"; echo \"err $TOKEN\" >&2; printf canary-; sleep 0.05; echo 7f3a9c51\n"
        "echo \"log l $TOKEN\" >&$ROTA_FD; echo \"progress 5 p $TOKEN\" >&$ROTA_FD\n"
        "echo 'checkpoint {\"t\": \"\\u0063anary-7f3a9c51\"}' >&$ROTA_FD\n"
        "echo \"unknown $TOKEN\" >&$ROTA_FD; echo \"cache model $TOKEN\" >&$ROTA_FD\n"
        "echo \"{\\\"result\\\": \\\"$TOKEN\\\"}\" > $ROTA_RESULT",
        kToken);
    EXPECT_EQ(end.end, model::AttemptEnd::kSucceeded) << end.message;
    EXPECT_EQ(end.result, "{\"result\": \"***\"}\n");
    const std::string seen = bench.seen(end);
    EXPECT_THAT(seen, Not(HasSubstr(kValue)));
    EXPECT_THAT(bench.events.output, HasSubstr("out ***"));
    EXPECT_THAT(read_text(end.log_path), HasSubstr("err ***"));
    EXPECT_THAT(bench.events.all, HasSubstr("log l ***"));
    EXPECT_THAT(bench.events.all, HasSubstr("progress p ***"));
    EXPECT_THAT(bench.events.all, HasSubstr("checkpoint {\"t\": \"***\"}"));
  });
}

TEST(Secrets, TheFailureMessageIsMasked) {
  in_runtime([] {
    Store store;
    store.put("hf", kValue);
    Bench bench;
    bench.sources.directory = store.folder.path();
    const model::AttemptOutcome end = bench.end("echo \"refused: $TOKEN\" >&2; exit 1", kToken);
    EXPECT_THAT(end.message, HasSubstr("refused: ***"));
    EXPECT_THAT(bench.seen(end), Not(HasSubstr(kValue)));
  });
}

TEST(Secrets, ASecretThatIsMissingFailsTheTaskAndSaysWhereItWasLookedFor) {
  in_runtime([] {
    Store store;
    Bench bench;
    EXPECT_THAT(bench.end("echo started", kToken).message,
                HasSubstr("the secret 'hf' of the variable TOKEN cannot be looked up: this worker has no source"));
    bench.sources.directory = store.folder.path();
    bench.sources.command = "exit 4";
    bench.sources.host = [](const SecretRequest&) -> Result<std::string> {
      return Error{ErrorCode::kNotFound, "the host has no secret 'hf'"};
    };
    const model::AttemptOutcome end = bench.end("echo started", kToken);
    EXPECT_EQ(end.end, model::AttemptEnd::kFailed);
    EXPECT_EQ(end.message,
              "the secret 'hf' of the variable TOKEN was not found; it was looked for in the worker's directory (there "
              "is no file '" +
                  store.folder / "hf" +
                  "'), with the worker's command (it ended with status 4), at the "
                  "host (the host has no secret 'hf')");
    EXPECT_EQ(bench.events.output, "") << "the program was started";
  });
}

TEST(Secrets, FilesThatOthersMayReadAreRefused) {
  Store store;
  store.put("hf", kValue, 0640);
  const std::string& path = store.folder.path();
  EXPECT_THAT(read_secret_file(path, "hf", "").error().message, HasSubstr("chmod 600"));
  store.put("hf", kValue, 0600);
  EXPECT_EQ(*read_secret_file(path, "hf", ""), kValue);
  ::chmod(path.c_str(), 0755);
  EXPECT_THAT(read_secret_file(path, "hf", "").error().message, HasSubstr("chmod 700"));
  EXPECT_EQ(check_secret_directory(path).code(), ErrorCode::kFailedPrecondition);
  ::chmod(path.c_str(), 0700);
  EXPECT_TRUE(check_secret_directory(path).ok());
  EXPECT_EQ(read_secret_file(path, "../hf", "").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_secret_file(path, ".hf", "").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_secret_file(path, "hf", "a/b").code(), ErrorCode::kInvalidArgument);
  store.put("short", "abc");
  EXPECT_EQ(read_secret_file(path, "short", "").code(), ErrorCode::kInvalidArgument);
  store.put("large", std::string(kSecretMostBytes + 1, 'x'));
  EXPECT_EQ(read_secret_file(path, "large", "").code(), ErrorCode::kInvalidArgument);
}

TEST(Secrets, AVersionIsAFileOfItsOwn) {
  Store store;
  store.put("hf", "the current one\r\n");
  store.put("hf@2", "the second one\n\n");
  EXPECT_EQ(*read_secret_file(store.folder.path(), "hf", ""), "the current one");
  EXPECT_EQ(*read_secret_file(store.folder.path(), "hf", "2"), "the second one\n") << "one line feed is removed";
  EXPECT_EQ(read_secret_file(store.folder.path(), "hf", "3").code(), ErrorCode::kNotFound);
}

TEST(Secrets, ACommandGetsNameAndVersion) {
  EXPECT_EQ(*secret_of_command("echo value of $ROTA_SECRET $ROTA_SECRET_VERSION", "hf", "2"), "value of hf 2");
  EXPECT_EQ(secret_of_command("echo value; exit 1", "hf", "").code(), ErrorCode::kNotFound);
  EXPECT_THAT(secret_of_command("kill -9 $$", "hf", "").error().message, HasSubstr("signal 9"));
  EXPECT_THAT(secret_of_command("yes", "hf", "").error().message, HasSubstr("more than a secret may have"));
  const auto limit = std::chrono::milliseconds(50);
  EXPECT_THAT(secret_of_command("sleep 1000", "hf", "", limit).error().message, HasSubstr("took too long"));
  EXPECT_THAT(secret_of_command("exec >&-; sleep 1000", "hf", "", limit).error().message, HasSubstr("took too long"));
}

// A variable counts only where the user asked for that, and no program inherits it.
TEST(Secrets, TheEnvironmentIsASourceOnlyIfAskedFor) {
  EXPECT_EQ(secret_variable("hf-token", "v2"), "ROTA_SECRET_HF_TOKEN_V2");
  ::setenv("ROTA_SECRET_HF", kValue, 1);  // NOLINT(concurrency-mt-unsafe): no other thread runs yet.
  in_runtime([] {
    Bench bench;
    EXPECT_THAT(bench.end("true", kToken).message, HasSubstr("no source of secrets"));
    bench.sources.environment = true;
    EXPECT_EQ(bench.end("test \"$TOKEN\" = canary-7f3a9c51; echo $?", kToken).result, "0");
    EXPECT_EQ(bench.end("echo \"${ROTA_SECRET_HF:-none}\"", kToken).result, "\"none\"");
  });
  ::unsetenv("ROTA_SECRET_HF");  // NOLINT(concurrency-mt-unsafe): all threads have ended.
}

// The first source that has the secret decides, and a file that cannot be used is not replaced by another source.
TEST(Secrets, SourcesAreAskedInOrder) {
  in_runtime([] {
    Store store;
    Bench bench;
    bench.sources.command = "echo from-the-command";
    bench.sources.directory = store.folder.path();
    const std::string print = "echo \"$TOKEN\" | tr a-z A-Z";
    EXPECT_EQ(bench.end(print, kToken).result, "\"FROM-THE-COMMAND\"");
    store.put("hf", "from-the-directory");
    EXPECT_EQ(bench.end(print, kToken).result, "\"FROM-THE-DIRECTORY\"");
    store.put("hf", "from-the-directory", 0644);
    EXPECT_THAT(bench.end(print, kToken).message, HasSubstr("chmod 600"));
  });
}

// Contract: U-7. A fingerprint has name and version; the value is not known where it is made.
TEST(Secrets, TheFingerprintHasNameAndVersion) {
  model::TaskSpec spec;
  spec.program.emplace().shell = "true";
  spec.program->secrets = kToken;
  const Parts before = parts_of(spec);
  spec.program->secrets[0].version = "2";
  EXPECT_EQ(differences(before, parts_of(spec)), "the variable TOKEN changed");
  spec.program->secrets[0] = {"TOKEN", "other", ""};
  EXPECT_EQ(differences(before, parts_of(spec)), "the variable TOKEN changed");
}

TEST(Secrets, TheSpecificationIsChecked) {
  model::TaskSpec spec;
  spec.program.emplace().shell = "true";
  spec.program->secrets = {{"TOKEN", "../hf", ""}};
  EXPECT_THAT(validate(spec).error().message, HasSubstr("cannot be the name of a secret"));
  spec.program->secrets = {{"ROTA_TASK", "hf", ""}};
  EXPECT_THAT(validate(spec).error().message, HasSubstr("reserved"));
  spec.program->secrets = kToken;
  spec.program->environment = {{"TOKEN", "x"}};
  EXPECT_THAT(validate(spec).error().message, HasSubstr("given twice"));
}

}  // namespace
}  // namespace rota::worker
