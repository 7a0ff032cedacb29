// The HTTP server over the simulated network (virtual time: every limit is reached without waiting), over the sockets
// of this machine, and over TLS.
#include "net/http_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/sync.h"
#include "net/sim_network.h"
#include "net/tls.h"
#include "net/tls_testing.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;

// Answers with what it got; some paths do something special.
class Echo final : public HttpHandler {
 public:
  Admission admit(const HttpRequest& head) override {
    if (head.path == "/private") return HttpResponse{.status = 401, .body = "who are you"};
    return std::uint64_t{100};
  }
  HttpResponse handle(HttpRequest& request) override {
    if (request.path == "/private") return {.status = 401, .body = "who are you"};
    handled.fetch_add(1);
    if (request.path == "/throw") throw std::runtime_error("a bug");
    if (request.path == "/empty") return {.status = 204};
    if (request.path == "/count") {
      return {.status = 200, .stream = [](HttpBodyWriter& writer) {
                for (int i = 0; i < 3; ++i) {
                  if (!writer.write("line " + std::to_string(i) + "\n").ok()) return false;
                }
                return true;
              }};
    }
    if (request.path == "/cut") {
      return {.status = 200, .stream = [](HttpBodyWriter& writer) { return writer.write("half").ok() && false; }};
    }
    if (request.path == "/flood") {
      return {.status = 200, .stream = [this](HttpBodyWriter& writer) {
                const std::string piece(1000, 'x');
                for (;;) {
                  const Result<void> wrote = writer.write(piece);
                  if (wrote.ok()) continue;
                  stream_ended = std::string(to_string(wrote.code()));
                  stream_end.set();
                  return false;
                }
              }};
    }
    return {.status = 200,
            .fields = {{"X-Peer", request.peer}},
            .body = request.method + " " + request.path + " " + request.body};
  }
  HttpResponse refuse(int status, const Error& error) override { return {.status = status, .body = error.message}; }

  sync::Atomic<int> handled{0};
  std::string stream_ended;
  fiber::Event stream_end;
};

std::string read_all(ByteStream& stream, Deadline deadline = 1000s) {
  std::string all;
  std::array<char, 4096> piece{};
  for (;;) {
    const Result<std::size_t> count = stream.read_some(piece, deadline);
    if (!count.ok()) return all + "[" + std::string(to_string(count.code())) + "]";
    if (*count == 0) return all;
    all.append(piece.data(), *count);
  }
}

std::string get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: b\r\n" + more + "\r\n";
}
std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: b\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string kClose = "Connection: close\r\n";

// The statuses of the responses in `text`.
std::vector<std::string> statuses(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; (at = text.find("HTTP/1.1 ", at)) != std::string::npos; at += 9) {
    list.push_back(text.substr(at + 9, 3));
  }
  return list;
}
using Statuses = std::vector<std::string>;

// A server on node "b" of a simulated network, and its clients on node "a".
struct World {
  explicit World(SimNetworkOptions options = {}, HttpLimits limits = {}) : sim(options), limits_(limits) {}

  void run(const std::function<void(World&)>& body) {
    fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 5});
    runtime.run([&] {
      fiber::with_scope([&](fiber::Nursery& nursery) {
        listener = sim.node("b").listen({.host = "b", .port = 80}).value();
        server = std::make_unique<HttpServer>(*listener, echo, limits_, [] { return std::time_t{1'700'000'000}; });
        fiber::Task<void> serving = nursery.spawn([this] { server->run(); });
        body(*this);
        listener->close();
        serving.wait();
        EXPECT_EQ(server->stats().open, 0U);
      });
    });
  }
  std::unique_ptr<ByteStream> connect() { return sim.node("a").connect({.host = "b", .port = 80}, 10s).value(); }
  // Sends `bytes`, ends the direction, and returns everything that comes back.
  std::string exchange(const std::string& bytes) {
    const std::unique_ptr<ByteStream> stream = connect();
    EXPECT_TRUE(stream->write_all(bytes, 100s).ok());
    EXPECT_TRUE(stream->shutdown_write(100s).ok());
    return read_all(*stream);
  }

  SimNetwork sim;
  HttpLimits limits_;
  Echo echo;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<HttpServer> server;
};

// Contract: H-1. Requests on one connection, pipelined, one byte at a time and in large segments: the same responses.
TEST(HttpServer, KeepAliveAndPipelining) {
  const LogCapture log;  // A handler that throws is logged.
  std::vector<std::string> seen;
  for (const std::size_t segment : {1U, 3U, 16'000U}) {
    World world({.link = {.min_segment_bytes = segment, .max_segment_bytes = segment}});
    world.run([&](World& w) {
      seen.push_back(w.exchange("\r\n" + get("/a") + post("/b", "body") + get("/empty") + get("/throw") +
                                "HEAD /h HTTP/1.1\r\nHost: b\r\n\r\n" + get("/last", kClose) + get("/never")));
      EXPECT_EQ(w.echo.handled.load(), 6);
    });
  }
  EXPECT_EQ(statuses(seen[0]), (Statuses{"200", "200", "204", "500", "200", "200"})) << seen[0];
  EXPECT_TRUE(log.contains("a bug"));
  EXPECT_NE(seen[0].find("Date: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Length: 7\r\n\r\nGET /a "), std::string::npos)
      << seen[0];
  EXPECT_NE(seen[0].find("\r\n\r\nPOST /b body"), std::string::npos) << seen[0];
  EXPECT_NE(seen[0].find("Content-Length: 8\r\n\r\nHTTP/1.1 200"), std::string::npos) << "HEAD had a body: " << seen[0];
  EXPECT_EQ(seen[0].find("/never"), std::string::npos);
  const auto without_ports = [](std::string text) {
    for (std::size_t at = 0; (at = text.find("X-Peer: ", at)) != std::string::npos;) {
      text.erase(at, text.find("\r\n", at) - at);
    }
    return text;
  };
  EXPECT_EQ(without_ports(seen[0]), without_ports(seen[1]));
  EXPECT_EQ(without_ports(seen[0]), without_ports(seen[2]));
}

TEST(HttpServer, OldClientsAndStreams) {
  World world;
  world.run([](World& w) {
    EXPECT_NE(
        w.exchange(get("/count", kClose)).find("\r\n\r\n7\r\nline 0\n\r\n7\r\nline 1\n\r\n7\r\nline 2\n\r\n0\r\n\r\n"),
        std::string::npos);
    const std::string old = w.exchange("GET /count HTTP/1.0\r\n\r\n");
    EXPECT_NE(old.find("\r\n\r\nline 0\nline 1\nline 2\n"), std::string::npos) << old;
    EXPECT_EQ(old.find("chunked"), std::string::npos);
    // A stream continues the connection; one that breaks off does not end with the last chunk.
    EXPECT_EQ(statuses(w.exchange(get("/count") + get("/a"))), (Statuses{"200", "200"}));
    const std::string cut = w.exchange(get("/cut") + get("/a"));
    EXPECT_EQ(statuses(cut), (Statuses{"200"}));
    EXPECT_EQ(cut.find("0\r\n\r\n"), std::string::npos);
  });
}

// Contract: H-6. A client that is slow in any phase is cut off at the phase's limit, and others are served meanwhile.
TEST(HttpServer, SlowClients) {
  World world({}, {.idle = 60s, .head_time = 10s, .body_time = 20s});
  world.run([](World& w) {
    const auto began = fiber::now();
    const auto idle = w.connect();
    const auto loris = w.connect();
    const auto body = w.connect();
    ASSERT_TRUE(body->write_all("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 90\r\n\r\nhalf", 1s).ok());
    // One byte a second: each read succeeds, and the whole takes too long.
    fiber::with_scope([&](fiber::Nursery& nursery) {
      nursery.launch([&] {
        for (const char c : get("/" + std::string(100, 'a'))) {
          if (!loris->write_all({&c, 1}, 1s).ok() || !fiber::sleep_for(1s).ok()) return;
        }
      });
      EXPECT_EQ(statuses(read_all(*loris)), (Statuses{"408"}));
      EXPECT_LT(fiber::now() - began, 15s);
      loris->close();
    });
    EXPECT_EQ(statuses(w.exchange(get("/", kClose))), (Statuses{"200"}));
    EXPECT_EQ(statuses(read_all(*body)), (Statuses{"408"}));
    EXPECT_EQ(read_all(*idle), "");
    EXPECT_GE(fiber::now() - began, 60s);
  });
}

// Contract: H-6.
TEST(HttpServer, AClientThatDoesNotRead) {
  World world({.buffer_bytes = 2000}, {.write_time = 5s});
  world.run([](World& w) {
    const auto client = w.connect();
    ASSERT_TRUE(client->write_all(get("/flood"), 1s).ok());
    w.echo.stream_end.wait();
    EXPECT_EQ(w.echo.stream_ended, "DeadlineExceeded");
    EXPECT_EQ(statuses(w.exchange(get("/", kClose))), (Statuses{"200"}));
  });
}

// Contract: H-6. What is refused is not read, gets an answer, and what follows it is not taken for a request.
TEST(HttpServer, Refusals) {
  World world({}, {.head_bytes = 500});
  world.run([](World& w) {
    const std::string evil = get("/evil");
    EXPECT_EQ(statuses(w.exchange("GET / HTTP/1.1\r\n\r\n" + evil)), (Statuses{"400"}));
    EXPECT_EQ(statuses(w.exchange(get("/" + std::string(600, 'a')) + evil)), (Statuses{"431"}));
    EXPECT_EQ(statuses(w.exchange(post("/", std::string(101, 'a')) + evil)), (Statuses{"413"}));
    EXPECT_EQ(statuses(w.exchange(post("/private", "GET /evil HTTP/1.1\r\nHost: b\r\n\r\n") + evil)),
              (Statuses{"401"}));
    EXPECT_EQ(statuses(w.exchange("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: xchunked\r\n\r\n" + evil)),
              (Statuses{"501"}));
    EXPECT_EQ(
        statuses(w.exchange("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0"
                            "\r\n\r\n" +
                            evil)),
        (Statuses{"400"}));
    EXPECT_EQ(statuses(w.exchange(get("/", "Expect: a-pony\r\n") + evil)), (Statuses{"417"}));
    EXPECT_EQ(w.echo.handled.load(), 0) << "a refused request, or one behind it, was handled";
    // Without a body there is no doubt where the next request begins.
    EXPECT_EQ(statuses(w.exchange(get("/private") + get("/", kClose))), (Statuses{"401", "200"}));
    // Half a request, and half a body.
    EXPECT_EQ(w.exchange("GET / HT"), "");
    EXPECT_EQ(w.exchange("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\nabc"), "");
    EXPECT_EQ(w.echo.handled.load(), 1);
    // A client that keeps sending does not keep the connection.
    const auto sender = w.connect();
    EXPECT_TRUE(sender->write_all("nonsense\r\n\r\n", 1s).ok());
    const auto began = fiber::now();
    while (sender->write_all(std::string(1000, 'x'), 1s).ok() && fiber::sleep_for(100ms).ok()) {
    }
    EXPECT_LT(fiber::now() - began, 5s);
  });
}

TEST(HttpServer, Continue) {
  World world;
  world.run([](World& w) {
    const std::string head =
        "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 4\r\nExpect: 100-continue\r\n" + kClose + "\r\n";
    const auto client = w.connect();
    ASSERT_TRUE(client->write_all(head, 1s).ok());
    std::array<char, 25> reply{};
    ASSERT_TRUE(client->read_exactly(reply, 1s).ok());
    EXPECT_EQ(std::string_view(reply.data(), reply.size()), "HTTP/1.1 100 Continue\r\n\r\n");
    ASSERT_TRUE(client->write_all("body", 1s).ok());
    EXPECT_NE(read_all(*client).find("POST / body"), std::string::npos);
    // Not for a body that is refused.
    EXPECT_EQ(
        statuses(w.exchange("POST /private HTTP/1.1\r\nHost: b\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")),
        (Statuses{"401"}));
  });
}

// Contract: H-6.
TEST(HttpServer, TooManyConnections) {
  World world({}, {.connections = 2});
  world.run([](World& w) {
    auto one = w.connect();
    auto two = w.connect();
    for (auto* held : {&one, &two}) {
      ASSERT_TRUE((*held)->write_all(get("/count"), 1s).ok());
      std::array<char, 12> status{};
      ASSERT_TRUE((*held)->read_exactly(status, 1s).ok());
    }
    EXPECT_EQ(statuses(w.exchange("")), (Statuses{"503"}));
    EXPECT_EQ(w.server->stats().turned_away, 1U);
    one->close();
    while (w.server->stats().open > 1) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
    EXPECT_EQ(statuses(w.exchange(get("/", kClose))), (Statuses{"200"}));
  });
}

// The end of the server cuts streams that would never end.
TEST(HttpServer, StopCutsStreams) {
  World world({.buffer_bytes = 2000}, {.write_time = 1000s});
  world.run([](World& w) {
    const auto client = w.connect();
    ASSERT_TRUE(client->write_all(get("/flood"), 1s).ok());
    std::array<char, 12> status{};
    ASSERT_TRUE(client->read_exactly(status, 1s).ok());
    w.listener->close();
    w.echo.stream_end.wait();
    EXPECT_EQ(w.echo.stream_ended, "Cancelled");
  });
}

// Contract: H-5. The sockets of this machine, plain and with TLS, from several clients at once.
TEST(HttpServer, RealNetworkAndTls) {
  const testing::TestCa ca("test");
  const testing::Identity identity = ca.issue();
  const auto server_context = TlsContext::server(testing::server_options(identity, ca)).value();
  const auto client_context = TlsContext::client({.ca = ca.source()}).value();
  TlsNetwork tls(real_network(), client_context, server_context);
  for (Network* network : {&real_network(), static_cast<Network*>(&tls)}) {
    fiber::Runtime runtime({.worker_count = 2});
    runtime.run([&] {
      Echo echo;
      const auto listener = network->listen({.host = "127.0.0.1", .port = 0}).value();
      HttpServer server(*listener, echo);
      fiber::with_scope([&](fiber::Nursery& nursery) {
        fiber::Task<void> serving = nursery.spawn([&] { server.run(); });
        fiber::with_scope([&](fiber::Nursery& clients) {
          for (int i = 0; i < 8; ++i) {
            clients.launch([&] {
              const auto stream = network->connect(listener->endpoint(), 60s).value();
              ASSERT_TRUE(stream->write_all(get("/a") + post("/b", "body") + get("/count", kClose), 60s).ok());
              EXPECT_EQ(statuses(read_all(*stream, 60s)), (Statuses{"200", "200", "200"}));
            });
          }
        });
        listener->close();
        serving.wait();
      });
      EXPECT_EQ(echo.handled.load(), 24);
    });
  }
}

}  // namespace
}  // namespace rota::net
