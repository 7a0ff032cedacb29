// The routes behind the dashboard: the page itself, the overview, the graph and the timeline of a workflow, attempts,
// and what another policy would have done (W-1).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "host/attempt_log.h"
#include "host/http_testing.h"
#include "host/page_files.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

const std::string kWide =
    "apiVersion: rota/v1\nkind: Workflow\nmetadata: {name: wide}\nspec:\n  stages:\n"
    "    - {name: a, run: 'true', max_attempts: 2, retry: {backoff: 10ms}}\n"
    "    - {name: b, needs: [a], run: 'true', matrix: {x: [1, 2, 3]}}\n";

// Contract: W-1, H-5. The page is part of the program, needs no token, loads nothing from elsewhere and runs no script
// that is not its own.
TEST(HttpPage, ThePageAndItsFiles) {
  HttpWorld().run([](HttpWorld& w) {
    const Reply page = w.ask("GET", "/", "");
    ASSERT_EQ(page.status, 200);
    EXPECT_EQ(page.fields.at("content-encoding"), "gzip");
    EXPECT_EQ(page.body, find_page_file("index.html")->gzip);
    const std::string& policy = page.fields.at("content-security-policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(policy.find("http"), std::string::npos) << "nothing comes from elsewhere";
    std::size_t bytes = page.body.size();
    for (const std::string name : {"app.js", "app.css", "layout.js"}) {
      const Reply file = w.ask("GET", "/page/" + name, "");
      ASSERT_EQ(file.status, 200) << name;
      EXPECT_EQ(file.body.substr(0, 2), "\x1f\x8b");
      bytes += file.body.size();
    }
    // Contract: P-21. What a browser loads, gzipped.
    EXPECT_LT(bytes, 80'000U);
    const Reply again = w.ask("GET", "/", "", "If-None-Match: " + page.fields.at("etag") + "\r\n");
    EXPECT_EQ(again.status, 304);
    EXPECT_TRUE(again.body.empty());
    EXPECT_EQ(w.ask("GET", "/page/../tokens", "").status, 404);
    EXPECT_EQ(w.ask("GET", "/page/secret", "").status, 404);
  });
}

// Contract: W-1, H-1. Graph, timeline, attempts and overview, now and at a past record.
TEST(HttpPage, ARunAsAPicture) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann, "", kWide).status, 201);
    const Assign first = w.puppet->next_assign();
    nlohmann::json graph = w.get("/v1/workflows/wf-1/graph?level=task").json();
    EXPECT_EQ(graph["tasks"], "aqqq");
    EXPECT_EQ(graph["stages"][1]["needs"], nlohmann::json::array({0}));
    EXPECT_EQ(graph["stages"][1]["first"], 1);
    EXPECT_EQ(graph["stages"][1]["states"]["queued"], 3);
    const std::string then = w.get("/v1/version").fields.at("rota-index");

    w.puppet->report_end(first, AttemptEnd::kFailed, "", "out of luck");
    const Assign second = w.puppet->next_assign();
    EXPECT_EQ(second.id.task, first.id.task);
    w.puppet->report_end(second, AttemptEnd::kSucceeded, "1");
    const Assign third = w.puppet->next_assign();
    const std::string wait = "wait_index=" + then + "&wait=10";
    for (int i = 0; i < 100 && graph["tasks"].get<std::string>()[0] != 's'; ++i) {
      graph = w.get("/v1/workflows/wf-1/graph?level=task&" + wait).json();
    }
    EXPECT_EQ(graph["tasks"].get<std::string>()[0], 's');

    const nlohmann::json attempts = w.get("/v1/tasks/wf-1.0/attempts").json();
    ASSERT_EQ(attempts["items"].size(), 2U);
    EXPECT_EQ(attempts["items"][0]["end"], "failed");
    EXPECT_EQ(attempts["items"][0]["message"], "out of luck");
    EXPECT_EQ(attempts["items"][0]["worker"], "w");
    EXPECT_EQ(attempts["items"][1]["end"], "succeeded");
    EXPECT_TRUE(attempts["complete"]);
    const nlohmann::json earlier = w.get("/v1/tasks/wf-1.0/attempts?at=" + then).json();
    ASSERT_EQ(earlier["items"].size(), 1U);
    EXPECT_EQ(earlier["items"][0]["end"], "") << "it had not ended then";

    nlohmann::json timeline;
    for (int i = 0; i < 100 && timeline["spans"].size() < 3; ++i) {  // The reader's copy follows the log.
      timeline = w.get("/v1/workflows/wf-1/timeline?lanes=stage&px=100&" + wait).json();
    }
    EXPECT_EQ(timeline["lanes"][0]["name"], "a");
    ASSERT_GE(timeline["spans"].size(), 3U) << "two attempts of a, and at least one task of b";
    EXPECT_EQ(timeline["spans"][0][3], 6) << "the first attempt failed";
    EXPECT_EQ(w.get("/v1/workflows/wf-1/timeline?lanes=worker").json()["lanes"][0]["name"], "w");
    const auto backwards = w.get("/v1/workflows/wf-1/timeline?from=5&to=1");
    EXPECT_EQ(backwards.status, 400) << backwards.body;
    EXPECT_EQ(backwards.json()["details"]["parameter"], "to");
    EXPECT_EQ(w.get("/v1/workflows/wf-1/timeline?from=5&to=5").status, 200);
    EXPECT_EQ(w.get("/v1/workflows/wf-1/graph?level=task&at=" + then).json()["tasks"], "aqqq");

    const nlohmann::json overview = w.get("/v1/overview").json();
    EXPECT_EQ(overview["workflows_running"], 1);
    EXPECT_EQ(overview["workers"]["usable"], 1);
    EXPECT_EQ(overview["states"]["succeeded"], 1);
    const nlohmann::json before = w.get("/v1/overview?at=" + then).json();
    EXPECT_EQ(before["states"]["queued"], 3);
    EXPECT_EQ(before["waiting"][0]["reason"], "needs");
    EXPECT_NE(before["waiting"][0]["sentence"].get<std::string>().find("waits for 1 stage"), std::string::npos);
    for (const char* path : {"/v1/overview?", "/v1/workflows/wf-1/graph?", "/v1/workflows/wf-1/timeline?"}) {
      EXPECT_EQ(w.get(path + std::string("fresh_ms=400")).status, 200) << path << ": as the page asks";
    }
    EXPECT_EQ(w.get("/v1/workflows/wf-9/graph").status, 404);
    EXPECT_EQ(w.get("/v1/workflows/wf-1/timeline?px=100000").status, 400);
  });
}

// Contract: W-1, S-3. Another policy on the log of the host.
TEST(HttpPage, AnotherPolicy) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    const auto replay = [&](const std::string& body) {
      return w.ask("POST", "/v1/replays", w.ann, "Content-Type: application/json\r\n", body);
    };
    const Reply done = replay(R"({"policy": "selection=first_fit"})");
    ASSERT_EQ(done.status, 200) << done.body;
    const nlohmann::json json = done.json();
    ASSERT_EQ(json["courses"].size(), 3U);
    EXPECT_EQ(json["courses"][1]["figures"]["succeeded"], 2) << "the simulation runs to its end";
    EXPECT_EQ(json["courses"][2]["policy"], "selection=first_fit");
    EXPECT_EQ(json["courses"][2]["running"].size(), json["courses"][1]["running"].size());
    EXPECT_EQ(replay(R"({"policy": "selection=best"})").status, 400);
    EXPECT_EQ(replay(R"({"policies": ""})").status, 400);
  });
}

// Contract: W-1, S-3. Another fleet on the log of the host.
TEST(HttpPage, AnotherFleet) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    const auto replay = [&](const std::string& body) {
      return w.ask("POST", "/v1/replays", w.ann, "Content-Type: application/json\r\n", body);
    };
    const Reply done = replay(R"({"policy": "", "fleet": ["worker=w count=2"]})");
    ASSERT_EQ(done.status, 200) << done.body;
    const nlohmann::json json = done.json();
    ASSERT_EQ(json["courses"].size(), 3U);
    EXPECT_EQ(json["courses"][2]["name"], "other fleet");
    EXPECT_EQ(json["courses"][2]["figures"]["succeeded"], 2);
    EXPECT_EQ(replay(R"({"fleet": ["worker=nobody"]})").status, 400);
    EXPECT_EQ(replay(R"({"fleet": ["count=2"]})").status, 400);
    EXPECT_EQ(replay(R"({"fleet": [2]})").status, 400);
    EXPECT_EQ(replay(R"({"fleet": "worker=w"})").status, 400);
  });
}

// Contract: W-1, H-6. How many tasks ran and waited for which reason, at moments of the past; the same again when the
// log has grown.
TEST(HttpPage, History) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann, "", kWide).status, 201);
    const Assign first = w.puppet->next_assign();
    // At most so many tasks at one moment: {"needs": 3, ...}.
    const auto most = [](const nlohmann::json& history, std::int64_t lane) {
      std::map<std::string, std::int64_t> found;
      for (const nlohmann::json& point : history["points"]) {
        for (std::size_t i = 0; i < point["values"].size(); i += 3) {
          if (point["values"][i] != lane) continue;
          std::int64_t& tasks = found[history["kinds"][point["values"][i + 1].get<std::size_t>()]];
          tasks = std::max(tasks, point["values"][i + 2].get<std::int64_t>());
        }
      }
      return found;
    };
    nlohmann::json history;
    for (int i = 0; i < 100 && (i == 0 || most(history, 0)["running"] == 0); ++i) history = w.get("/v1/history").json();
    EXPECT_EQ(most(history, 0)["running"], 1);
    EXPECT_EQ(most(history, 0)["needs"], 3);
    EXPECT_TRUE(history["complete"]);
    const std::size_t points = history["points"].size();
    w.puppet->report_end(first, AttemptEnd::kSucceeded, "1");
    (void)w.puppet->next_assign();
    for (int i = 0; i < 100 && history["points"].size() <= points; ++i) history = w.get("/v1/history").json();
    EXPECT_EQ(history["points"][0]["index"], 1);
    for (std::size_t i = 1; i < history["points"].size(); ++i) {
      EXPECT_LT(history["points"][i - 1]["index"], history["points"][i]["index"]);
      EXPECT_LE(history["points"][i - 1]["time_ms"], history["points"][i]["time_ms"]);
    }
    const nlohmann::json one = w.get("/v1/history?workflow=wf-1&fresh_ms=400").json();
    EXPECT_EQ(one["lanes"], nlohmann::json::array({"a", "b"}));
    EXPECT_EQ(most(one, 0)["running"], 1);
    EXPECT_EQ(most(one, 1)["needs"], 3);
    // Few points of a log of any length, always with the newest one.
    const nlohmann::json few = w.get("/v1/history?points=2").json();
    EXPECT_LE(few["points"].size(), 4U);
    EXPECT_EQ(w.get("/v1/history?workflow=wf-9").status, 404);
    EXPECT_EQ(w.get("/v1/history?points=5000").status, 400);
    // H-1: every read accepts a past moment, and can wait for a newer record.
    const std::uint64_t moment = history["points"][points - 1]["index"];
    const auto past = w.get("/v1/history?at=" + std::to_string(moment));
    ASSERT_EQ(past.status, 200) << past.body;
    EXPECT_EQ(past.fields.at("rota-index"), std::to_string(moment));
    const nlohmann::json before = past.json();
    EXPECT_EQ(before["points"].back()["index"], moment);
    EXPECT_EQ(before["points"].front(), history["points"].front());
    EXPECT_EQ(w.get("/v1/history?workflow=wf-1&at=1").status, 404) << "the workflow was not submitted yet";
    EXPECT_EQ(w.get("/v1/history?at=1000000").status, 404);
    const auto waited = w.get("/v1/history?wait=5&wait_index=" + std::to_string(moment));
    ASSERT_EQ(waited.status, 200) << waited.body;
    EXPECT_GT(waited.json()["points"].back()["index"].get<std::uint64_t>(), moment);
  });
}

// Contract: W-1. A workflow that failed needs a person.
TEST(HttpPage, AFailedWorkflowNeedsAPerson) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann, "", kWide).status, 201);
    w.puppet->report_end(w.puppet->next_assign(), AttemptEnd::kFailed, "", "out of luck");
    w.puppet->report_end(w.puppet->next_assign(), AttemptEnd::kFailed, "", "out of luck again");
    nlohmann::json overview;
    std::string index = "0";
    for (int i = 0; i < 20 && (i == 0 || overview["workflows_running"] != 0);
         ++i) {  // The reader's copy follows the log.
      const Reply reply = w.get("/v1/overview?wait=5&wait_index=" + index);
      overview = reply.json();
      index = reply.fields.at("rota-index");
    }
    ASSERT_FALSE(overview["attention"].empty());
    EXPECT_EQ(overview["attention"][0]["kind"], "workflow");
    EXPECT_EQ(overview["attention"][0]["subject"], "wf-1");
    EXPECT_EQ(overview["attention"][0]["text"], "wide failed in a: out of luck again");
  });
}

// The bound of the log of attempts: what is forgotten or too much is dropped.
TEST(AttemptLog, ForgetsWithTheWorkflow) {
  AttemptLog log;
  const model::WorkflowId workflow(1);
  const model::TaskId task(workflow, 0);
  fleet::Record record;
  record.index = 5;
  record.wall_ns = 100;
  record.events.push_back(fleet::TaskAssigned{.task = task, .attempt = model::AttemptNumber(1)});
  log.see(record);
  ASSERT_EQ(log.of(task, 5).size(), 1U);
  EXPECT_TRUE(log.of(task, 4).empty()) << "not assigned yet";
  record.index = 6;
  record.events = {fleet::WorkflowForgotten{workflow}};
  log.see(record);
  EXPECT_TRUE(log.of(task, 6).empty());
}

}  // namespace
}  // namespace rota::host
