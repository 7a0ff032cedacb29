// The HTTP interface of a host: who may do what, what the routes answer, streams and metrics. The host, its brain and
// the server are the real ones, in virtual time on a simulated network.
#include "host/http_api.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "base/log.h"
#include "base/source_dir.h"
#include "host/http_testing.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

// A path of the route with something in place of {id}.
std::string example_path(const HttpRoute& route) {
  std::string path(route.path);
  const std::size_t open = path.find('{');
  if (open == std::string::npos) return path;
  const std::string value = path.find("/tasks/") != std::string::npos     ? "wf-99.0"
                            : path.find("/workers/") != std::string::npos ? "nobody"
                            : path.find("/page/") != std::string::npos    ? "app.js"
                                                                          : "wf-99";
  return path.replace(open, path.find('}') - open + 1, value);
}
std::string example_type(const HttpRoute& route) {
  return route.accepts.empty() ? "" : "Content-Type: " + std::string(route.accepts.front()) + "\r\n";
}

// Contract: H-5, H-1. Every route of the table, with every role, without a token and with a wrong one.
TEST(HttpApi, RolesOfEveryRoute) {
  HttpWorld().run([](HttpWorld& w) {
    const LogCapture quiet(LogLevel::kTrace);
    const std::string over = w.create("over", Role::kAdmin, "root", kWall / 1'000'000'000);
    for (const HttpRoute& route : http_routes()) {
      SCOPED_TRACE(std::string(route.method) + " " + std::string(route.path));
      const auto status = [&](const std::string& token) {
        return w.ask(std::string(route.method), example_path(route), token, example_type(route)).status;
      };
      const bool open = route.access == Access::kOpen;
      const std::set<int> refused{401, 403};
      for (const std::string& nobody :
           {std::string(), over, w.admin + "0", w.admin.substr(0, 20), std::string("rota_root_")}) {
        // The clock of this test stands still, so all failures are in one second.
        const int got = w.ask(std::string(route.method), example_path(route), nobody, example_type(route)).status;
        if (open) {
          EXPECT_EQ(got, 200);
        } else {
          EXPECT_TRUE(got == 401 || got == 429) << got;
        }
      }
      if (open || route.path == "/v1/events") continue;
      const bool machine = route.access == Access::kWorker || route.access == Access::kJoin;
      EXPECT_EQ(refused.contains(status(w.reader)), route.access != Access::kRead && route.access != Access::kFiles);
      EXPECT_EQ(refused.contains(status(w.ann)), machine || route.access == Access::kAdmin);
      EXPECT_EQ(refused.contains(status(w.admin)), machine);
    }
  });
}

// Contract: H-5. A browser that was led here by another name, and pages of other sites.
TEST(HttpApi, HostAndOrigin) {
  HttpWorld().run([](HttpWorld& w) {
    const auto status = [&](const std::string& fields) {
      return w
          .raw("GET /v1/version HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer " + w.reader + "\r\n" + fields +
               "\r\n")
          .status;
    };
    for (const char* host : {"127.0.0.1:70", "localhost:70", "LOCALHOST", "[::1]:70", "127.0.0.1"}) {
      EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 200) << host;
    }
    for (const char* host :
         {"evil.example", "evil.example:70", "127.0.0.1.evil.example", "", "localhost.evil.example:70"}) {
      EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 403) << host;
    }
    EXPECT_EQ(status("Host: localhost:70\r\nOrigin: http://localhost:70\r\n"), 200);
    for (const char* origin :
         {"http://evil.example", "null", "http://localhost:71", "http://127.0.0.1:70", "localhost:70"}) {
      EXPECT_EQ(status("Host: localhost:70\r\nOrigin: " + std::string(origin) + "\r\n"), 403) << origin;
    }
    // The check comes before everything else, also for the probes.
    EXPECT_EQ(w.raw("GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").status, 403);
  });
}

// Contract: H-1.
TEST(HttpApi, SubmitIsIdempotent) {
  HttpWorld().run([](HttpWorld& w) {
    const Reply first = w.submit(w.ann, "nightly-1");
    ASSERT_EQ(first.status, 201) << first.body;
    EXPECT_EQ(first.json()["workflow"], "wf-1");
    EXPECT_EQ(first.fields.at("location"), "/v1/workflows/wf-1");
    EXPECT_GE(std::stoull(first.fields.at("rota-index")), first.json()["index"].get<std::uint64_t>());
    const Reply again = w.submit(w.ann, "\"nightly-1\"");
    EXPECT_EQ(again.status, 200);
    EXPECT_EQ(again.body, first.body) << "not the first answer";
    EXPECT_EQ(again.fields.at("idempotency-replayed"), "true");
    EXPECT_FALSE(first.fields.contains("idempotency-replayed"));
    std::string other = kTwoStages;
    other.replace(other.find("'true'"), 6, "'false'");
    EXPECT_EQ(w.submit(w.ann, "nightly-1", other).status, 422);
    const Reply stolen = w.submit(w.bob, "nightly-1");
    EXPECT_EQ(stolen.status, 422) << "another user's key";
    EXPECT_EQ(stolen.json()["code"], "AlreadyExists");
    EXPECT_EQ(w.submit(w.ann, std::string(256, 'k')).status, 400);
    // H-7: a client cannot take the key of a schedule's next firing, which would then be left out.
    for (const std::string& token : {w.bob, w.admin}) {
      const Reply reserved = w.submit(token, "schedule/every/2026-11-18T11:49:00Z");
      EXPECT_EQ(reserved.status, 400);
      EXPECT_NE(reserved.json()["detail"].get<std::string>().find("use another key"), std::string::npos);
    }
    EXPECT_EQ(w.submit(w.ann, "").json()["workflow"], "wf-2") << "without a key every submission is new";
    EXPECT_EQ(w.get("/v1/workflows/wf-1").json()["user"], "ann");
    EXPECT_EQ(w.get("/v1/workflows/wf-1").json()["key"], "nightly-1");
  });
}

// Contract: H-1. RFC 9457, with our code, line and column.
TEST(HttpApi, Problems) {
  HttpWorld().run([](HttpWorld& w) {
    const Reply bad = w.submit(w.ann, "",
                               "apiVersion: rota/v1\nkind: Workflow\nmetadata: {name: x}\nspec:\n  stages:\n"
                               "    - {name: a, rnu: 'true'}\n    - {name: b, needs: [zz], run: 'true'}\n");
    EXPECT_EQ(bad.status, 400);
    EXPECT_EQ(bad.fields.at("content-type"), "application/problem+json");
    const nlohmann::json problem = bad.json();
    EXPECT_EQ(problem["code"], "ParseError");
    EXPECT_EQ(problem["status"], 400);
    EXPECT_EQ(problem["type"], "urn:rota:error:ParseError");
    ASSERT_GE(problem["errors"].size(), 2U);
    EXPECT_EQ(problem["errors"][0]["line"], 6);
    EXPECT_GT(problem["errors"][0]["column"], 1);
    const Reply checked = w.ask("POST", "/v1/validate", w.ann, "Content-Type: application/yaml\r\n", "{}");
    EXPECT_EQ(checked.status, 200);
    EXPECT_EQ(checked.json()["valid"], false);
    EXPECT_EQ(
        w.ask("POST", "/v1/validate", w.ann, "Content-Type: text/yaml; charset=utf-8\r\n", kTwoStages).json()["tasks"],
        2);

    EXPECT_EQ(
        w.ask("POST", "/v1/workflows", w.ann, "Content-Type: application/x-www-form-urlencoded\r\n", "a=b").status,
        415);
    EXPECT_EQ(w.ask("POST", "/v1/workflows", w.ann, "", "a: b").status, 415);
    EXPECT_EQ(w.get("/v1/workflows/wf-9").json()["code"], "NotFound");
    EXPECT_EQ(w.get("/v1/workflows/x").status, 404);
    EXPECT_EQ(w.get("/v1/workflows/").status, 404);
    EXPECT_EQ(w.get("/v1").status, 404);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.99999999").status, 404);
    const Reply method = w.ask("PUT", "/v1/workflows", w.admin);
    EXPECT_EQ(method.status, 405);
    EXPECT_EQ(method.fields.at("allow"), "POST, GET, HEAD");
    EXPECT_EQ(w.get("/v1/workflows?colour=red").status, 400);
    EXPECT_EQ(w.get("/v1/workflows?limit=1&limit=2").status, 400);
    EXPECT_EQ(w.get("/v1/workflows?limit=1001").status, 400);
    EXPECT_EQ(w.get("/v1/workflows?limit=-1").status, 400);
    EXPECT_EQ(w.get("/v1/workflows?outcome=great").status, 400);
    EXPECT_EQ(w.get("/v1/workflows?cursor=zz").status, 400);
    EXPECT_EQ(w.get("/v1/version?at=1").status, 400) << "not one of its parameters";
    const Reply nobody = w.ask("GET", "/v1/workflows", "");
    EXPECT_EQ(nobody.fields.at("www-authenticate"), "Bearer realm=\"rota\"");
    EXPECT_EQ(nobody.fields.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(w.raw("BAD\r\n\r\n").json()["code"], "InvalidArgument") << "errors of the server have the same form";
    for (const char* body : {"{}", "5", "{\"priority\":1.5}", "{\"priority\":\"1\"}", "{\"priority\":1,\"x\":2}", "[",
                             "{\"priority\":1e9}"}) {
      EXPECT_EQ(w.ask("PATCH", "/v1/workflows/wf-1", w.admin, "Content-Type: application/json\r\n", body).status, 400)
          << body;
    }
  });
}

// Contract: H-1. Control of workflows, tasks and workers, and what the reads show afterwards.
TEST(HttpApi, ControlAndReads) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    ASSERT_EQ(w.submit(w.bob).status, 201);
    EXPECT_EQ(w.post("/v1/workflows/wf-1/pause", w.bob).status, 403) << "not his";
    EXPECT_EQ(
        w.ask("PATCH", "/v1/workflows/wf-1", w.bob, "Content-Type: application/json\r\n", "{\"priority\":9}").status,
        403);
    EXPECT_EQ(w.post("/v1/tasks/wf-1.1/cancel", w.bob).status, 403);
    EXPECT_EQ(w.post("/v1/workflows/wf-1/pause", w.ann).status, 200);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.1").json()["state"], "paused");
    EXPECT_EQ(w.post("/v1/workflows/wf-1/pause", w.ann).status, 200) << "idempotent";
    EXPECT_EQ(w.post("/v1/workflows/wf-1/resume", w.admin).status, 200);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.1").json()["state"], "queued");
    EXPECT_EQ(
        w.ask("PATCH", "/v1/workflows/wf-1", w.ann, "Content-Type: application/json\r\n", "{\"priority\": -7}").status,
        200);
    EXPECT_EQ(w.get("/v1/workflows/wf-1").json()["priority"], -7);
    EXPECT_EQ(
        w.ask("PATCH", "/v1/tasks/wf-1.1", w.ann, "Content-Type: application/json\r\n", "{\"priority\":12}").status,
        200);
    EXPECT_EQ(w.get("/v1/tasks/wf-1.1").json()["priority"], 12);

    const nlohmann::json detail = w.get("/v1/workflows/wf-1").json();
    EXPECT_EQ(detail["stages"][1]["needs"][0], "a");
    EXPECT_EQ(detail["states"]["queued"], 1);
    EXPECT_EQ(detail["states"]["running"], 1);
    EXPECT_EQ(detail["ended"], nullptr);
    EXPECT_EQ(detail["submitted"].get<std::string>().substr(0, 10), "2023-11-14");

    const nlohmann::json why = w.get("/v1/tasks/wf-1.1/explain").json();
    EXPECT_EQ(why["reason"], "needs");
    EXPECT_FALSE(why["sentence"].get<std::string>().empty());
    const nlohmann::json placed = w.get("/v1/tasks/wf-1.0/explain").json();
    EXPECT_EQ(placed["reason"], "running");
    EXPECT_NE(placed.dump().find("'w'"), std::string::npos) << placed;

    // The task runs, and has a result.
    const Assign assign = w.puppet->next_assign();
    const std::string before = w.get("/v1/version").fields.at("rota-index");
    w.puppet->report_end(assign, AttemptEnd::kSucceeded, "{\"loss\":0.5}");
    const std::string id = assign.id.task.to_string();
    std::uint64_t index = std::stoull(w.get("/v1/version").fields.at("rota-index"));
    while (w.get("/v1/tasks/" + id).json()["state"] != "succeeded") {
      const Reply next = w.get("/v1/workflows?wait_index=" + std::to_string(index));
      ASSERT_EQ(next.status, 200);
      ASSERT_GT(std::stoull(next.fields.at("rota-index")), index) << "it did not wait";
      index = std::stoull(next.fields.at("rota-index"));
    }
    EXPECT_EQ(w.get("/v1/tasks/" + id + "/result").json()["result"]["loss"], 0.5);
    // Lists: pages, filters, the past.
    const nlohmann::json page = w.get("/v1/workflows?limit=1").json();
    ASSERT_EQ(page["items"].size(), 1U);
    EXPECT_EQ(page["items"][0]["id"], "wf-2");
    const nlohmann::json rest = w.get("/v1/workflows?cursor=" + page["next_cursor"].get<std::string>()).json();
    EXPECT_EQ(rest["items"][0]["id"], "wf-1");
    EXPECT_EQ(rest["next_cursor"], nullptr);
    EXPECT_EQ(w.get("/v1/workflows?user=bob").json()["items"].size(), 1U);
    EXPECT_EQ(w.get("/v1/workflows?outcome=failed").json()["items"].size(), 0U);
    EXPECT_EQ(w.get("/v1/workflows?q=tw").json()["items"].size(), 2U);
    std::vector<std::string> tasks;
    std::string target = "/v1/tasks?limit=3";
    for (int i = 0; i < 3 && !target.empty(); ++i) {
      const nlohmann::json some = w.get(target).json();
      for (const auto& task : some["items"]) tasks.push_back(task["id"]);
      target =
          some["next_cursor"].is_null() ? "" : "/v1/tasks?limit=3&cursor=" + some["next_cursor"].get<std::string>();
    }
    EXPECT_EQ(tasks, (std::vector<std::string>{"wf-1.0", "wf-1.1", "wf-2.0", "wf-2.1"}));
    EXPECT_EQ(w.get("/v1/tasks?workflow=wf-2&stage=b").json()["items"][0]["id"], "wf-2.1");
    EXPECT_EQ(w.get("/v1/tasks?workflow=wf-7").status, 404);
    EXPECT_EQ(w.get("/v1/tasks?state=succeeded&worker=w").json()["items"][0]["id"], id);
    const Reply past = w.get("/v1/tasks/" + id + "?at=" + before);
    EXPECT_EQ(past.json()["state"], "running") << past.body;
    EXPECT_EQ(past.fields.at("rota-index"), before);
    EXPECT_EQ(w.get("/v1/workflows?at=999999").status, 404);

    EXPECT_EQ(w.post("/v1/tasks/wf-2.1/cancel", w.bob).status, 200);
    EXPECT_EQ(w.get("/v1/tasks/wf-2.1").json()["state"], "cancelled");
    EXPECT_EQ(w.post("/v1/tasks/wf-2.1/pause", w.bob).status, 412);
    EXPECT_EQ(w.post("/v1/tasks/wf-2.1/retry", w.bob).status, 200);
    EXPECT_EQ(w.post("/v1/workflows/wf-1/retry", w.ann).status, 200);
    EXPECT_EQ(w.ask("DELETE", "/v1/workflows/wf-1", w.admin).status, 412) << "it has not ended";

    // Workers.
    EXPECT_EQ(w.get("/v1/workers").json()["items"][0]["name"], "w");
    EXPECT_EQ(w.post("/v1/workers/w/disable", w.ann).status, 403);
    EXPECT_EQ(w.post("/v1/workers/w/disable", w.admin).status, 200);
    EXPECT_EQ(w.get("/v1/workers/w").json()["status"], "disabled");
    EXPECT_EQ(w.post("/v1/workers/w/enable", w.admin).status, 200);
    EXPECT_EQ(w.get("/v1/workers/w").json()["disabled_by_hand"], false);
    EXPECT_EQ(w.post("/workers/w/elastic", w.admin).status, 200);
    EXPECT_EQ(w.post("/v1/workers/w/drain", w.admin).status, 200);
    EXPECT_EQ(w.get("/v1/workers/w").json()["status"], "draining");
    EXPECT_EQ(w.post("/v1/workers/nobody/drain", w.admin).status, 404);
  });
}

// Contract: H-6. Reads are answered while the brain cannot decide; a change is answered only when it is durable.
TEST(HttpApi, ReadsDoNotNeedTheBrain) {
  HttpWorld world;
  SlowLedger slow;
  world.ledger = &slow;
  world.run([&](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    slow.open.reset();
    bool answered = false;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      nursery.launch([&] {
        EXPECT_EQ(w.submit(w.ann).status, 201);
        answered = true;
      });
      for (int i = 0; i < 20; ++i) EXPECT_EQ(w.get("/v1/workflows").json()["items"].size(), 1U);
      EXPECT_EQ(w.get("/metrics").status, 200);
      EXPECT_FALSE(answered);
      slow.open.set();
    });
    EXPECT_EQ(w.get("/v1/workflows").json()["items"].size(), 2U);
  });
}

// The next event of a stream, without comments; empty at its end.
class EventReader {
 public:
  EventReader(HttpWorld& w, const std::string& target, const std::string& more = "") : stream_(w.connect()) {
    EXPECT_TRUE(stream_
                    ->write_all("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" +
                                    more + "Authorization: Bearer " + w.reader + "\r\n\r\n",
                                10s)
                    .ok());
    head = take("\r\n\r\n");
  }
  std::string next() {
    for (;;) {
      std::string event = take("\n\n");
      const std::size_t id = event.find("id: ");
      if (event.empty()) return event;
      if (id != std::string::npos) return event.substr(id);
      ++comments;
    }
  }
  std::string head;
  int comments = 0;

 private:
  std::string take(const std::string& mark) {
    for (;;) {
      if (const std::size_t at = buffer_.find(mark); at != std::string::npos) {
        std::string part = buffer_.substr(0, at);
        buffer_.erase(0, at + mark.size());
        return part;
      }
      std::array<char, 4096> piece{};
      const Result<std::size_t> count = stream_->read_some(piece, 1000s);
      if (!count.ok() || *count == 0) return {};
      buffer_.append(piece.data(), *count);
    }
  }
  std::unique_ptr<net::ByteStream> stream_;
  std::string buffer_;
};

std::uint64_t id_of(const std::string& event) { return event.empty() ? 0 : std::stoull(event.substr(4)); }

// Contract: H-5. A stream ends soon after its token was revoked, also if nothing happens.
TEST(HttpApi, AStreamEndsWithItsToken) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    EventReader silent(w, "/v1/events");
    EventReader index(w, "/v1/events?only=index&from=1");
    EXPECT_FALSE(index.next().empty());
    ASSERT_TRUE(fiber::sleep_for(20s).ok());
    ASSERT_TRUE(revoke_token(w.folder.path + "/tokens", "reader").ok());
    ASSERT_TRUE(fiber::sleep_for(20s).ok());
    ASSERT_EQ(w.submit(w.ann).status, 201);
    EXPECT_EQ(silent.next(), "");
    EXPECT_EQ(index.next(), "");
  });
}

// Contract: H-1, H-6. A stream resumes where it was interrupted, without a gap; new records arrive; it stays alive.
TEST(HttpApi, EventsResume) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    const std::uint64_t last = w.get("/v1/version").json()["index"];
    std::uint64_t seen = 0;
    {
      EventReader one(w, "/v1/events?from=1");
      EXPECT_NE(one.head.find("text/event-stream"), std::string::npos);
      while (seen < last) {
        const std::string event = one.next();
        ASSERT_EQ(id_of(event), seen + 1) << event;
        seen = id_of(event);
        const nlohmann::json data = nlohmann::json::parse(event.substr(event.find("data: ") + 6));
        EXPECT_EQ(data["record"], seen);
        EXPECT_TRUE(data["events"].is_array());
      }
      // Silence: comments keep it open, and the next record arrives.
      ASSERT_TRUE(fiber::sleep_for(40s).ok());
      ASSERT_EQ(w.submit(w.ann).status, 201);
      EXPECT_EQ(id_of(one.next()), last + 1);
      EXPECT_GE(one.comments, 3);
    }
    // As a client that reconnects: after the event that it had.
    EventReader two(w, "/v1/events", "Last-Event-ID: " + std::to_string(last) + "\r\n");
    EXPECT_EQ(id_of(two.next()), last + 1);
    // Without a place, the next new one.
    const std::uint64_t now = w.get("/v1/version").json()["index"];
    EventReader three(w, "/v1/events");
    ASSERT_EQ(w.submit(w.ann).status, 201);
    EXPECT_EQ(id_of(three.next()), now + 1);
    // Pages.
    nlohmann::json page = w.get("/v1/events?limit=2").json();
    EXPECT_EQ(page["items"][0]["record"], 1);
    page = w.get("/v1/events?limit=2&from=" + page["next_cursor"].get<std::string>()).json();
    EXPECT_EQ(page["items"][0]["record"], 3);
    EXPECT_EQ(w.get("/v1/events?from=99999").status, 404);
    EXPECT_EQ(w.ask("GET", "/v1/events", w.reader, "Accept: text/event-stream\r\nLast-Event-ID: x\r\n").status, 400);
    // When the host stops, streams end.
    w.running->stop();
    w.stopped = true;
    while (!three.next().empty()) {
    }
    EXPECT_EQ(w.ask("POST", "/v1/workflows", w.ann, "Content-Type: application/yaml\r\n", kTwoStages).status, 503);
  });
}

// Contract: H-1. 410 for records that were compacted, with the oldest that is kept.
TEST(HttpApi, CompactedRecordsAreGone) {
  HostOptions of = options();
  of.snapshot_every = 5;
  HttpWorld(of).run([](HttpWorld& w) {
    while (w.memory.first_index() == 1) {
      ASSERT_EQ(w.submit(w.ann).status, 201);
      ASSERT_TRUE(fiber::sleep_for(1ms).ok());
    }
    const Reply gone = w.ask("GET", "/v1/events?from=1", w.reader, "Accept: text/event-stream\r\n");
    EXPECT_EQ(gone.status, 410);
    EXPECT_EQ(gone.json()["code"], "Closed");
    EXPECT_EQ(gone.json()["details"]["first"], std::to_string(w.memory.first_index()));
    EXPECT_EQ(w.get("/v1/events?from=1").status, 410);
    EXPECT_EQ(w.get("/v1/workflows?at=1").status, 410);
    EXPECT_EQ(w.get("/v1/events").status, 200) << "without a place, the oldest that there is";
  });
}

// Contract: H-6. A reader that does not read is disconnected; others and the host continue.
TEST(HttpApi, ASlowReaderIsDisconnected) {
  HttpWorld world;
  world.limits.write_time = 5s;
  world.run([](HttpWorld& w) {
    const std::string big(20'000, 'x');
    std::string body = kTwoStages;
    body.replace(body.find("'true'"), 6, "'echo " + big + "'");
    EventReader slow(w, "/v1/events?from=1");
    EventReader fast(w, "/v1/events?from=1");
    for (int i = 0; i < 10; ++i) ASSERT_EQ(w.submit(w.ann, "", body).status, 201);
    const std::uint64_t last = w.get("/v1/version").json()["index"];
    while (id_of(fast.next()) < last) {
    }
    ASSERT_TRUE(fiber::sleep_for(20s).ok());
    std::uint64_t seen = 0;
    for (std::string event = slow.next(); !event.empty(); event = slow.next()) seen = id_of(event);
    EXPECT_LT(seen, last) << "it got everything: it was not cut off";
    EventReader again(w, "/v1/events", "Last-Event-ID: " + std::to_string(seen) + "\r\n");
    EXPECT_EQ(id_of(again.next()), seen + 1);
  });
}

// Contract: H-2. The counters are those of a recount of the log.
TEST(HttpApi, MetricsEqualTheLog) {
  HttpWorld().run([](HttpWorld& w) {
    ASSERT_EQ(w.submit(w.ann).status, 201);
    ASSERT_EQ(w.submit(w.ann).status, 201);
    const Assign first = w.puppet->next_assign();
    w.puppet->report_end(first, AttemptEnd::kFailed, "", "no");
    ASSERT_EQ(w.post("/v1/workflows/wf-2/cancel", w.admin).status, 200);
    std::uint64_t index = 0;
    std::map<std::string, double> metrics;
    do {
      ASSERT_TRUE(fiber::sleep_for(1s).ok());
      index = w.get("/v1/version").json()["index"];
      std::istringstream text(w.get("/metrics").body);
      metrics.clear();
      for (std::string line; std::getline(text, line);) {
        if (line.starts_with('#')) continue;
        metrics[line.substr(0, line.rfind(' '))] = std::stod(line.substr(line.rfind(' ') + 1));
      }
    } while (metrics["rota_log_index"] < static_cast<double>(index));
    std::map<std::string, double> counted;
    const std::vector<ledger::RecordBytes> records = w.memory.read(1, 10'000).value();
    for (const ledger::RecordBytes& bytes : records) {
      const nlohmann::json record = w.get("/v1/events?limit=1&from=" + std::to_string(bytes.index)).json()["items"][0];
      for (const auto& event : record["events"]) counted[event["event"]] += 1;
    }
    EXPECT_EQ(metrics["rota_workflows_accepted_total"], counted["WorkflowAccepted"]);
    EXPECT_EQ(metrics["rota_tasks_cancelled_total"], counted["TaskCancelled"]);
    double dispatches = 0;
    double requeues = 0;
    for (const auto& [name, value] : metrics) {
      if (name.starts_with("rota_dispatches_total")) dispatches += value;
      if (name.starts_with("rota_requeues_total")) requeues += value;
    }
    EXPECT_GT(dispatches, 0);
    EXPECT_EQ(dispatches, counted["TaskAssigned"]);
    EXPECT_GT(requeues, 0);
    EXPECT_EQ(requeues, counted["TaskRequeued"]);
    EXPECT_EQ(metrics["rota_log_records_total"], metrics["rota_log_index"]);
    EXPECT_EQ(metrics["rota_workers{status=\"busy\"}"] + metrics["rota_workers{status=\"idle\"}"], 1);
  });
}

// Contract: H-1. The specification names every route, its parameters and a schema that exists; the page follows.
TEST(HttpApi, Specification) {
  const nlohmann::json spec = nlohmann::json::parse(openapi_json());
  EXPECT_EQ(spec["openapi"], "3.1.0");
  std::set<std::string> operations;
  for (const HttpRoute& route : http_routes()) {
    SCOPED_TRACE(route.operation);
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    const nlohmann::json& operation = spec["paths"][std::string(route.path)][method];
    ASSERT_TRUE(operation.is_object());
    EXPECT_TRUE(operations.insert(operation["operationId"]).second) << "not unique";
    EXPECT_EQ(operation["parameters"].size(), route.parameters.size());
    EXPECT_EQ(operation["security"].empty(), route.access == Access::kOpen);
    EXPECT_NE(route.handler, nullptr);
    std::string text = operation.dump();
    for (std::size_t at = 0; (at = text.find("#/components/schemas/", at)) != std::string::npos; ++at) {
      const std::string name = text.substr(at + 21, text.find('"', at) - at - 21);
      EXPECT_TRUE(spec["components"]["schemas"].contains(name)) << name;
    }
  }
  const std::string path = std::string(kSourceDir) + "/docs/api.md";
  if (std::getenv("ROTA_REWRITE") != nullptr) std::ofstream(path) << api_page();  // NOLINT(concurrency-mt-unsafe)
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}) == api_page())
      << "docs/api.md is out of date: run this test once with ROTA_REWRITE=1";
}

}  // namespace
}  // namespace rota::host
