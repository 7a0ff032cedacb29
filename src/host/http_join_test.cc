// Workers that join over HTTP: join tokens, identities, accounts, and what each of them cannot do (H-5).
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/log.h"
#include "fleet/record.h"
#include "host/http_testing.h"
#include "host/worker_access.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

const std::string kJson = "Content-Type: application/json\r\n";

// Accounts at a Redis that does not exist: the last password of each worker.
struct Accounts {
  std::map<std::string, std::string> passwords{};
  int made = 0;
  [[nodiscard]] WorkerGrants grants() {
    return {.grant = [this](const std::string& worker) -> Result<WorkerGrant> {
              passwords[worker] = "secret-" + std::to_string(++made);
              return WorkerGrant{"redis://r:6379", "rota", "rota:worker:" + worker, passwords[worker]};
            },
            .revoke = [this](const std::string& worker) -> Result<void> {
              passwords.erase(worker);
              return {};
            }};
  }
};

Reply join(HttpWorld& w, const std::string& token, const std::string& name) {
  return w.ask("POST", "/v1/workers/join", token, kJson, "{\"name\": \"" + name + "\"}");
}

TEST(WorkerAccess, Patterns) {
  for (const char* name : {"gpu-1", "gpu-", "gpu-1-gpu-2"}) EXPECT_TRUE(matches_pattern("gpu-*", name)) << name;
  for (const char* name : {"gpu", "cpu-1", "Gpu-1", ""}) EXPECT_FALSE(matches_pattern("gpu-*", name)) << name;
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(matches_pattern("a*b*c", "a-b-b-cd"));
  EXPECT_FALSE(matches_pattern("", "a"));
  // No pattern takes long.
  EXPECT_FALSE(matches_pattern("*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

// H-5: a join token is good for names of its pattern until it expires; an identity for its own worker.
TEST(HttpJoin, FromTokenToIdentity) {
  Accounts accounts;
  HttpWorld world;
  world.grants = accounts.grants();
  world.run([&](HttpWorld& w) {
    const LogCapture quiet(LogLevel::kTrace);
    const std::string token = w.create("j", Role::kJoin, "gpu-*", kWall / 1'000'000'000 + 900);
    const std::string over = w.create("o", Role::kJoin, "*", kWall / 1'000'000'000);
    EXPECT_EQ(join(w, over, "gpu-1").status, 401);
    EXPECT_EQ(join(w, token, "cpu-1").status, 403);
    EXPECT_EQ(join(w, w.admin, "gpu-1").status, 403);
    EXPECT_EQ(w.ask("POST", "/v1/workers/join", token, kJson, "{}").status, 400);
    EXPECT_EQ(w.ask("POST", "/v1/workers/join", token, kJson, "{\"name\": 1}").status, 400);
    EXPECT_TRUE(accounts.passwords.empty());
    const Reply first = join(w, token, "gpu-1");
    ASSERT_EQ(first.status, 200) << first.body;
    EXPECT_EQ(first.json()["redis_password"], "secret-1");
    const std::string identity = first.json()["identity"];
    const auto renew = [&](const std::string& who, const std::string& name, const std::string& body = "{}") {
      return w.ask("POST", "/v1/workers/" + name + "/renew", who, kJson, body);
    };
    EXPECT_EQ(renew(identity, "gpu-2").status, 403);
    EXPECT_EQ(renew(token, "gpu-1").status, 403);
    EXPECT_EQ(renew(w.admin, "gpu-1").status, 403);
    const Reply second = renew(identity, "gpu-1");
    ASSERT_EQ(second.status, 200) << second.body;
    EXPECT_EQ(second.json()["redis_password"], "");
    EXPECT_EQ(accounts.passwords.at("gpu-1"), "secret-1");
    // The former one renews again, in case the response was lost; and with a new account if it is asked for.
    EXPECT_EQ(renew(identity, "gpu-1", "{\"redis\": true}").json()["redis_password"], "secret-2");
    EXPECT_EQ(renew(identity, "gpu-1").status, 401);  // Two renewals ago.
    // Neither reads anything.
    for (const std::string& machine : {token, second.json()["identity"].get<std::string>()}) {
      for (const char* path : {"/v1/workers", "/v1/log", "/v1/events", "/metrics", "/openapi.json", "/v1/tokens"}) {
        EXPECT_EQ(w.ask("GET", path, machine).status, 403) << path;
      }
    }
  });
}

TEST(HttpJoin, WithoutRedisNobodyJoins) {
  HttpWorld().run([](HttpWorld& w) {
    EXPECT_EQ(join(w, w.create("j", Role::kJoin, "*", kWall / 1'000'000'000 + 900), "w1").status, 412);
  });
}

// H-5: an admin makes a join token over HTTP; it never lasts longer than a day.
TEST(HttpJoin, TokensOverHttp) {
  HttpWorld().run([](HttpWorld& w) {
    const auto make = [&](const std::string& body) { return w.ask("POST", "/v1/tokens", w.admin, kJson, body); };
    ASSERT_EQ(make(R"({"name": "j1", "role": "join", "user": "gpu-*"})").status, 201);
    EXPECT_EQ(make(R"({"name": "w1", "role": "worker", "user": "w"})").status, 400);
    EXPECT_EQ(make(R"({"name": "x", "role": "king"})").status, 400);
    EXPECT_EQ(make(R"({"name": "x", "role": "submit", "user": "a*"})").status, 400);
    const nlohmann::json tokens = w.ask("GET", "/v1/tokens", w.admin).json();
    for (const auto& item : tokens["items"]) {
      EXPECT_EQ(item["name"] == "j1", !item["expires"].is_null()) << item.dump();
    }
    // Rotation: both secrets for a while, then one.
    const Reply kept = w.ask("POST", "/v1/tokens/ann/rotate", w.admin, kJson, "{\"keep_sec\": 60}");
    ASSERT_EQ(kept.status, 200) << kept.body;
    const std::string fresh = kept.json()["token"];
    EXPECT_EQ(w.ask("GET", "/v1/workers", w.ann).status, 200);
    EXPECT_EQ(w.ask("GET", "/v1/workers", fresh).status, 200);
    ASSERT_EQ(w.ask("POST", "/v1/tokens/ann/rotate", w.admin, kJson, "{}").status, 200);
    EXPECT_EQ(w.ask("GET", "/v1/workers", fresh).status, 401);
    EXPECT_EQ(w.ask("POST", "/v1/tokens/nobody/rotate", w.admin, kJson, "{}").status, 404);
    EXPECT_EQ(w.ask("POST", "/v1/tokens/ann/rotate", w.admin, kJson, "{\"keep_sec\": -1}").status, 400);
  });
}

// H-5: every answer names its request; a client's own id is kept if it is a word.
TEST(HttpJoin, RequestIds) {
  HttpWorld().run([](HttpWorld& w) {
    const LogCapture log(LogLevel::kInfo);
    const Reply kept =
        w.ask("POST", "/v1/workflows", w.ann, "Content-Type: application/yaml\r\nX-Request-Id: r-1\r\n", kTwoStages);
    ASSERT_EQ(kept.status, 201);
    EXPECT_EQ(kept.fields.at("x-request-id"), "r-1");
    const Reply drawn = w.ask("POST", "/v1/workflows/wf-1/pause", w.admin, "X-Request-Id: a b\r\n");
    ASSERT_EQ(drawn.status, 200);
    EXPECT_NE(drawn.fields.at("x-request-id"), "a b");
    EXPECT_NE(drawn.fields.at("x-request-id"), "");
  });
}

}  // namespace
}  // namespace rota::host
