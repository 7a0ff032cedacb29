// Contract: U-7, H-5. The host gives a secret to the worker that holds a task which names it, and to nobody else.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/log.h"
#include "host/http_testing.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

const std::string kWithSecret =
    "apiVersion: rota/v1\nkind: Workflow\nmetadata: {name: one}\nspec:\n  stages:\n"
    "    - {name: a, run: 'true', env: {TOKEN: {secret: hf}}}\n";

TEST(HttpSecrets, OnlyForATaskThatTheWorkerHolds) {
  StateFolder store;
  ::chmod(store.path.c_str(), 0700);
  for (const char* name : {"hf", "hf@2", "other"}) {
    std::ofstream(store.path + "/" + name) << "value of " << name << "\n";
    ::chmod((store.path + "/" + name).c_str(), 0600);
  }
  const int dumpable = ::prctl(PR_GET_DUMPABLE);
  HttpWorld world;
  world.secrets = store.path;
  world.run([&](HttpWorld& w) {
    LogCapture log(LogLevel::kTrace);
    EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 0) << "a core dump of this process would have values";
    const std::string mine = w.create("w.1", Role::kWorker, "w");
    const std::string others = w.create("w.2", Role::kWorker, "v");
    ASSERT_EQ(w.submit(w.ann, "", kWithSecret).status, 201);
    const Assign assign = w.puppet->next_assign();
    const std::string held = "/v1/secrets/hf?task=" + assign.id.task.to_string() + "&attempt=1";
    const Reply given = w.ask("GET", held, mine);
    EXPECT_EQ(given.status, 200) << given.body;
    EXPECT_EQ(given.body, "value of hf");
    EXPECT_EQ(given.fields.at("cache-control"), "no-store");
    EXPECT_EQ(w.ask("GET", held, others).status, 403) << "another worker";
    EXPECT_EQ(w.ask("GET", held, w.admin).status, 403) << "no worker";
    EXPECT_EQ(w.ask("GET", held + "&version=2", mine).status, 403) << "not the version that the task names";
    EXPECT_EQ(w.ask("GET", "/v1/secrets/other?task=wf-1.0&attempt=1", mine).status, 403) << "not named by the task";
    EXPECT_EQ(w.ask("GET", "/v1/secrets/hf?task=wf-1.0&attempt=2", mine).status, 403) << "an attempt that never comes";
    EXPECT_EQ(w.ask("GET", "/v1/secrets/hf", mine).status, 400);
    ::chmod((store.path + "/hf").c_str(), 0644);
    EXPECT_EQ(w.ask("GET", held, mine).status, 412) << "a file that others may read";
    ::unlink((store.path + "/hf").c_str());
    EXPECT_EQ(w.ask("GET", held, mine).status, 404);
    w.puppet->report_end(assign, AttemptEnd::kSucceeded, "1");
    w.running->watcher.wait_ended();
    EXPECT_EQ(w.ask("GET", held, mine).status, 403) << "the task has ended";
    EXPECT_TRUE(log.contains("a secret was given to a worker"));
    EXPECT_FALSE(log.contains("value of hf"));
  });
  (void)::prctl(PR_SET_DUMPABLE, dumpable);
}

}  // namespace
}  // namespace rota::host
