// The routes that read what is not in the state: the log in binary form, the output of tasks, decisions and the queue.
#include "host/http_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fleet/record.h"
#include "host/http_testing.h"
#include "host/output_store.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

std::string unchunked(const std::string& body) {
  std::string out;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\r\n", at);
    const std::size_t size = std::stoul(body.substr(at, end - at), nullptr, 16);
    if (size == 0) break;
    out += body.substr(end + 2, size);
    at = end + 2 + size + 2;
  }
  return out;
}

TEST(HttpLog, Frames) {
  std::string body;
  append_log_record(body, "abc");
  append_log_record(body, "");
  append_log_record(body, std::string(300, 'x'));
  const auto records = split_log(body);
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 3U);
  EXPECT_EQ((*records)[0], "abc");
  EXPECT_EQ((*records)[1], "");
  EXPECT_EQ((*records)[2].size(), 300U);
  for (std::size_t cut : {1U, 3U, 5U}) {
    EXPECT_EQ(split_log(std::string_view(body).substr(0, cut)).code(), ErrorCode::kCorrupt) << cut;
  }
  EXPECT_TRUE(split_log("")->empty());
}

// C-2, H-1: the records are those of the ledger, page by page, and verify as a chain.
TEST(HttpLog, TheLogInBinaryForm) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    fleet::LogPosition position;
    std::uint64_t last = 0;
    do {
      const Reply page = w.get("/v1/log?limit=2&from=" + std::to_string(position.index + 1));
      ASSERT_EQ(page.status, 200) << page.body;
      last = std::stoull(page.fields.at("rota-index"));
      const std::string body = unchunked(page.body);
      const auto records = split_log(body);
      ASSERT_TRUE(records.ok());
      ASSERT_LE(records->size(), 2U);
      ASSERT_FALSE(records->empty());
      for (const std::string_view bytes : *records) {
        const Result<fleet::Record> record = fleet::decode_record(bytes, position);
        ASSERT_TRUE(record.ok()) << record.error().to_string();
      }
    } while (position.index < last);
    EXPECT_EQ(last, w.ledger->last_index());
    EXPECT_EQ(w.get("/v1/log?from=" + std::to_string(last + 1)).body, "");
    EXPECT_EQ(w.get("/v1/log/snapshot").status, 404);
    // It waits for the next record, and no longer than it is told to.
    EXPECT_EQ(w.get("/v1/log?wait=2&from=" + std::to_string(last + 1)).status, 200);
  });
}

// H-1: a part of what a task wrote, its last lines, and all of it until its end.
TEST(HttpLog, OutputOfATask) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    std::filesystem::create_directories(w.folder.path + "/logs");
    const model::TaskId task = *model::TaskId::parse("wf-1.0");
    const std::string path = w.folder.path + "/logs/" + OutputStore::file_name({task, model::AttemptNumber(1)});
    std::ofstream(path) << "one\ntwo\nthr\xC3\xA9"
                           "e\n";
    const Reply whole = w.get("/v1/tasks/wf-1.0/logs");
    ASSERT_EQ(whole.status, 200) << whole.body;
    EXPECT_EQ(whole.body,
              "one\ntwo\nthr\xC3\xA9"
              "e\n");
    EXPECT_EQ(whole.fields.at("rota-log-next"), "15");
    EXPECT_EQ(whole.fields.at("rota-attempt"), "1");
    EXPECT_EQ(w.get("/v1/tasks/wf-1.0/logs?offset=4&bytes=3").body, "two");
    EXPECT_EQ(w.get("/v1/tasks/wf-1.0/logs?offset=999").body, "");
    EXPECT_EQ(w.get("/v1/tasks/wf-1.0/logs?tail=1").body,
              "thr\xC3\xA9"
              "e\n");
    EXPECT_EQ(w.get("/v1/tasks/wf-1.0/logs?tail=1&offset=1").status, 400);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.0/logs?attempt=2").status, 404);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.0/logs?attempt=0").status, 404);
    EXPECT_EQ(w.get("/v1/tasks/wf-9.0/logs").status, 404);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.1/logs").body, "");  // It has not run.
    // Ended: a stream ends with it. A client that was cut off continues at a byte.
    ASSERT_EQ(w.post("/v1/workflows/wf-1/cancel", w.ann).status, 200);
    EXPECT_EQ(unchunked(w.get("/v1/tasks/wf-1.1/logs?follow=1").body), "");
    const Reply events = w.ask("GET", "/v1/tasks/wf-1.1/logs", w.reader, "Accept: text/event-stream\r\n");
    EXPECT_NE(events.body.find("event: end"), std::string::npos) << events.body;
  });
}

// H-1: why each task went where it did, the newest first, in pages.
TEST(HttpLog, DecisionsAndQueue) {
  HttpWorld().run([](HttpWorld& w) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(w.submit(w.ann).status, 201);
    const auto all = w.get("/v1/decisions").json();
    ASSERT_GE(all["items"].size(), 1U) << all.dump();
    EXPECT_EQ(all["items"][0]["worker"], "w");
    EXPECT_TRUE(all["items"][0]["reasoning"].contains("score"));
    std::vector<std::string> seen;
    std::string target = "/v1/decisions?limit=1";
    for (int i = 0; i < 10; ++i) {
      const auto page = w.get(target).json();
      for (const auto& item : page["items"]) seen.push_back(item["task"]);
      if (page["next_cursor"].is_null()) break;
      target = "/v1/decisions?limit=1&cursor=" + page["next_cursor"].get<std::string>();
    }
    std::vector<std::string> whole;
    for (const auto& item : all["items"]) whole.push_back(item["task"]);
    EXPECT_EQ(seen, whole);
    EXPECT_EQ(w.get("/v1/decisions?worker=nobody").json()["items"].size(), 0U);
    EXPECT_EQ(w.get("/v1/decisions?workflow=wf-1").json()["items"][0]["task"], "wf-1.0");
    for (const char* cursor : {"x", "1", "1.", ".1", "0.1", "99999.1", "-1.1"}) {
      EXPECT_EQ(w.get("/v1/decisions?cursor=" + std::string(cursor)).status, 400) << cursor;
    }
    // What has no place waits, and says why.
    ASSERT_EQ(w.post("/v1/workers/w/disable", w.admin).status, 200);
    ASSERT_EQ(w.submit(w.ann).status, 201);
    const auto queue = w.get("/v1/queue").json();
    ASSERT_GE(queue["items"].size(), 1U) << queue.dump();
    EXPECT_EQ(queue["items"].back()["task"], "wf-4.0");
    EXPECT_NE(queue["items"].back()["sentence"], "");
    EXPECT_EQ(w.get("/v1/density").status, 412);
  });
}

// C-2: `rota submit --wait` waits for the end, without being woken by every record.
TEST(HttpLog, WaitsForTheEnd) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    EXPECT_EQ(w.get("/v1/workflows/wf-1?until=ended&wait=1").json()["outcome"], "running");
    ASSERT_EQ(w.post("/v1/workflows/wf-1/cancel", w.ann).status, 200);
    EXPECT_EQ(w.get("/v1/workflows/wf-9?until=ended").status, 404);
    EXPECT_EQ(w.get("/v1/workflows/wf-1?until=tomorrow").status, 400);
  });
}

// H-5: the record of each change names the user, the token and the request; what workers and the host itself did has no
// origin. Only an administrator reads the list.
TEST(HttpLog, WhoDidWhat) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    ASSERT_EQ(w.ask("POST", "/v1/workflows/wf-1/cancel", w.admin, "X-Request-Id: night-shift-7\r\n").status, 200);
    ASSERT_EQ(w.ask("POST", "/v1/workers/w/disable", w.admin).status, 200);
    ASSERT_NE(w.post("/v1/workflows/wf-1/retry", w.bob).status, 200);  // Refused: no record, no line.
    EXPECT_EQ(w.get("/v1/audit").status, 403);
    EXPECT_EQ(w.ask("GET", "/v1/audit", w.ann).status, 403);
    const auto items = w.ask("GET", "/v1/audit", w.admin).json()["items"];
    ASSERT_EQ(items.size(), 3U) << items.dump();
    EXPECT_EQ(items[0]["command"], "SetWorkerEnabled");
    EXPECT_EQ(items[0]["target"], "w");
    EXPECT_EQ(items[0]["action"], "disable");
    EXPECT_NE(items[0]["request"], "");  // The host gives one to a request without.
    EXPECT_EQ(items[1]["command"], "Control");
    EXPECT_EQ(items[1]["target"], "wf-1");
    EXPECT_EQ(items[1]["action"], "cancel");
    EXPECT_EQ(items[1]["user"], "root");
    EXPECT_EQ(items[1]["token"], "root");
    EXPECT_EQ(items[1]["request"], "night-shift-7");
    EXPECT_EQ(items[2]["command"], "SubmitWorkflow");
    EXPECT_EQ(items[2]["user"], "ann");
    EXPECT_EQ(items[2]["target"], "wf-1");
    // Page by page, and by user.
    std::string target = "/v1/audit?limit=1";
    for (std::size_t i = 0; i < 3; ++i) {
      const auto page = w.ask("GET", target, w.admin).json();
      ASSERT_EQ(page["items"].size(), 1U) << target;
      EXPECT_EQ(page["items"][0], items[i]);
      if (i < 2) target = "/v1/audit?limit=1&cursor=" + page["next_cursor"].get<std::string>();
    }
    const auto of_ann = w.ask("GET", "/v1/audit?user=ann", w.admin).json()["items"];
    ASSERT_EQ(of_ann.size(), 1U);
    EXPECT_EQ(of_ann[0], items[2]);
    EXPECT_EQ(w.ask("GET", "/v1/audit?cursor=x", w.admin).status, 400);
    // The log itself says the same, and a worker's registration has no origin.
    std::map<std::string, int> with_origin;
    fleet::LogPosition position;
    const std::vector<ledger::RecordBytes> log = w.ledger->read(1, 1000).value();
    for (const ledger::RecordBytes& stored : log) {
      const Result<fleet::Record> record = fleet::decode_record(stored.bytes, position);
      ASSERT_TRUE(record.ok()) << record.error().to_string();
      if (!record->origin.user.empty()) ++with_origin[record->origin.user];
    }
    EXPECT_EQ(with_origin, (std::map<std::string, int>{{"ann", 1}, {"root", 2}}));
  });
}

}  // namespace
}  // namespace rota::host
