// What the tests of the HTTP interface share: a host with its door on a simulated network, and a client.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/follower.h"
#include "host/host_testing.h"
#include "host/http_door.h"
#include "net/sim_network.h"

namespace rota::host::testing_support {

inline const std::string kTwoStages =
    "apiVersion: rota/v1\nkind: Workflow\nmetadata: {name: two}\nspec:\n  stages:\n    - {name: a, run: 'true'}\n"
    "    - {name: b, needs: [a], run: 'true'}\n";

struct Reply {
  int status = 0;
  std::map<std::string, std::string> fields{};  // Names in lower case.
  std::string body{};
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
};

inline Reply parse_reply(const std::string& text) {
  Reply reply;
  if (text.size() < 12) return reply;
  reply.status = std::stoi(text.substr(9, 3));
  std::size_t at = text.find("\r\n") + 2;
  while (text.compare(at, 2, "\r\n") != 0) {
    const std::size_t colon = text.find(": ", at);
    const std::size_t end = text.find("\r\n", at);
    std::string name = text.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    reply.fields[name] = text.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  reply.body = text.substr(at + 2);
  return reply;
}

// A folder of its own for the tokens.
struct StateFolder {
  StateFolder() {
    static int number = 0;
    path = "/tmp/rota-http-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~StateFolder() { std::filesystem::remove_all(path); }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;
  std::string path;
};

// A host with a worker "w" that runs programs, and its door at 127.0.0.1:70 of the node "h".
struct HttpWorld {
  explicit HttpWorld(HostOptions of = options()) : host_options(std::move(of)) {
    host_options.follow = true;
    // The worker of the test sends no heartbeats.
    host_options.policy.emplace().heartbeat_ttl_ms = 3'600'000;
  }

  void run(const std::function<void(HttpWorld&)>& body) {
    fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 11});
    runtime.run([&] {
      fiber::with_scope([&](fiber::Nursery& nursery) {
        running = std::make_unique<Running>(nursery, *ledger, bus, host_options);
        puppet = std::make_unique<Puppet>(bus, "w");
        puppet->hello();
        running->wait_registered("w");
        ASSERT_TRUE(running->host.follower().wait_for(running->host.durable_index(), 10s).ok());
        Result<std::unique_ptr<HttpDoor>> opened = HttpDoor::open(running->host, *ledger, sim.node("h"),
                                                                  {.address = "127.0.0.1:70",
                                                                   .state = folder.path,
                                                                   .limits = limits,
                                                                   .wall_ns = [] { return kWall; },
                                                                   .grants = grants,
                                                                   .secrets = secrets,
                                                                   .files = files,
                                                                   .files_bytes = files_bytes});
        ASSERT_TRUE(opened.ok()) << opened.error().to_string();
        door = std::move(*opened);
        fiber::Task<void> serving = nursery.spawn([this] { door->run(); });
        admin = create("root", Role::kAdmin, "root");
        ann = create("ann", Role::kSubmit, "ann");
        bob = create("bob", Role::kSubmit, "bob");
        reader = create("reader", Role::kRead, "eve");
        body(*this);
        door->close();
        serving.wait();
        if (!stopped) running->stop();
      });
    });
  }
  std::string create(const std::string& id, Role role, const std::string& user, std::int64_t expires_s = 0) const {
    return create_token(folder.path + "/tokens", {.id = id, .role = role, .user = user, .expires_s = expires_s})
        .value();
  }
  std::unique_ptr<net::ByteStream> connect() {
    return sim.node("h").connect({.host = "127.0.0.1", .port = 70}, 10s).value();
  }
  // Sends a request and reads until the server closes.
  Reply raw(const std::string& bytes) {
    const auto stream = connect();
    EXPECT_TRUE(stream->write_all(bytes, 10s).ok());
    std::string text;
    std::array<char, 4096> piece{};
    for (;;) {
      const Result<std::size_t> count = stream->read_some(piece, 200s);
      if (!count.ok() || *count == 0) break;
      text.append(piece.data(), *count);
    }
    return parse_reply(text);
  }
  Reply ask(const std::string& method, const std::string& target, const std::string& token,
            const std::string& more = "", const std::string& body = "") {
    std::string head = method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1:70\r\nConnection: close\r\n" + more;
    if (!token.empty()) head += "Authorization: Bearer " + token + "\r\n";
    if (!body.empty()) head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return raw(head + "\r\n" + body);
  }
  Reply get(const std::string& target) { return ask("GET", target, reader); }
  Reply post(const std::string& target, const std::string& token) { return ask("POST", target, token); }
  Reply submit(const std::string& token, const std::string& key = "", const std::string& body = kTwoStages) {
    return ask("POST", "/v1/workflows", token,
               "Content-Type: application/yaml\r\n" + (key.empty() ? "" : "Idempotency-Key: " + key + "\r\n"), body);
  }

  StateFolder folder;
  net::SimNetwork sim{net::SimNetworkOptions{}};
  net::HttpLimits limits{};
  WorkerGrants grants{};
  std::string secrets{};  // A folder.
  std::string files{};    // Likewise.
  std::uint64_t files_bytes = 0;
  ledger::MemoryLedger memory;
  ledger::Ledger* ledger = &memory;
  bus::LocalBus bus;
  HostOptions host_options;
  std::unique_ptr<Running> running;
  std::unique_ptr<Puppet> puppet;
  std::unique_ptr<HttpDoor> door;
  std::string admin;
  std::string ann;
  std::string bob;
  std::string reader;
  bool stopped = false;
};

}  // namespace rota::host::testing_support
