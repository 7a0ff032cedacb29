// The HTTP client: against our server over the simulated network, and against servers that misbehave.
#include "net/http_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/http_server.h"
#include "net/http_url.h"
#include "net/sim_network.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;

const Endpoint kServer{.host = "b", .port = 80};

class Answers final : public HttpHandler {
 public:
  Admission admit(const HttpRequest& /*head*/) override { return std::uint64_t{1} << 20; }
  HttpResponse handle(HttpRequest& request) override {
    if (request.path == "/private") return {.status = 401, .body = "who are you"};
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
    if (request.path == "/forever") {
      return {.status = 200, .stream = [](HttpBodyWriter& writer) {
                while (writer.write("tick\n").ok() && fiber::sleep_for(1s).ok()) {
                }
                return false;
              }};
    }
    return {.status = 200, .fields = {{"X-Target", request.target}}, .body = request.method + " " + request.body};
  }
  HttpResponse refuse(int status, const Error& error) override { return {.status = status, .body = error.message}; }
};

// Our server on node "b"; clients on node "a".
void with_server(const std::function<void(Network&, HttpServer&)>& body) {
  SimNetwork sim{SimNetworkOptions{}};
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 5});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Answers answers;
      const auto listener = sim.node("b").listen(kServer).value();
      HttpServer server(*listener, answers);
      fiber::Task<void> serving = nursery.spawn([&] { server.run(); });
      body(sim.node("a"), server);
      listener->close();
      serving.wait();
    });
  });
}

// A server that answers each connection with one of the texts, in turn, once it has read a head, and then closes.
void with_script(const std::vector<std::string>& texts,
                 const std::function<void(Network&, std::vector<std::string>&)>& body) {
  SimNetwork sim{SimNetworkOptions{}};
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 5});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      const auto listener = sim.node("b").listen(kServer).value();
      std::vector<std::string> heads;
      fiber::Task<void> serving = nursery.spawn([&] {
        for (const std::string& text : texts) {
          auto stream = listener->accept({});
          if (!stream.ok()) return;
          std::string head;
          std::array<char, 1024> piece{};
          while (head.find("\r\n\r\n") == std::string::npos) {
            const Result<std::size_t> count = (*stream)->read_some(piece, 10s);
            if (!count.ok() || *count == 0) break;
            head.append(piece.data(), *count);
          }
          heads.push_back(head);
          if (text != "silence") (void)(*stream)->write_all(text, 10s);
          if (text == "silence") (void)fiber::sleep_for(100s);
          (void)(*stream)->shutdown_write(1s);
        }
      });
      body(sim.node("a"), heads);
      listener->close();
      serving.wait();
    });
  });
}

Result<HttpResponse> answer_to(const std::string& text, const HttpClientRequest& request = {}) {
  Result<HttpResponse> response = ErrorCode::kInternal;
  with_script({text}, [&](Network& network, std::vector<std::string>&) {
    HttpClient client(network, kServer, {.head_bytes = 1000, .body_bytes = 100});
    response = client.call(request, 20s);
  });
  return response;
}

TEST(HttpClient, UsesOneConnectionForManyRequests) {
  with_server([](Network& network, HttpServer& server) {
    HttpClient client(network, kServer);
    for (int i = 0; i < 5; ++i) {
      const Result<HttpResponse> response = client.call({.method = "POST", .target = "/x?y=1", .body = "hello"}, 10s);
      ASSERT_TRUE(response.ok()) << response.error().to_string();
      EXPECT_EQ(response->status, 200);
      EXPECT_EQ(response->body, "POST hello");
      EXPECT_EQ(*response->field("x-target"), "/x?y=1");
    }
    EXPECT_EQ(client.call({.target = "/count"}, 10s)->body, "line 0\nline 1\nline 2\n");  // Chunked.
    EXPECT_EQ(client.call({.method = "HEAD", .target = "/x"}, 10s)->body, "");
    EXPECT_EQ(client.call({.target = "/private"}, 10s)->status, 401);
    EXPECT_EQ(server.stats().connections, 1U);
  });
}

// H-6: a stream arrives piece by piece, ends when the reader has enough, and is not kept in memory.
TEST(HttpClient, ReadsStreams) {
  with_server([](Network& network, HttpServer&) {
    HttpClient client(network, kServer, {.body_bytes = 10});
    int ticks = 0;
    const Result<HttpResponse> response = client.stream({.target = "/forever"}, 10s, 5s, [&](std::string_view piece) {
      EXPECT_EQ(piece, "tick\n");
      return ++ticks < 4;  // More than body_bytes by then.
    });
    ASSERT_TRUE(response.ok()) << response.error().to_string();
    EXPECT_EQ(ticks, 4);
    EXPECT_EQ(client.call({.target = "/x"}, 10s)->body, "GET ");  // On a new connection.
    // Cut in the middle: not a complete answer.
    EXPECT_EQ(client.call({.target = "/cut"}, 10s).code(), ErrorCode::kClosed);
    EXPECT_EQ(client.stream({.target = "/cut"}, 10s, 5s, [](std::string_view) { return true; }).code(),
              ErrorCode::kClosed);
  });
}

TEST(HttpClient, AnErrorInPlaceOfAStreamIsAResponse) {
  with_server([](Network& network, HttpServer&) {
    HttpClient client(network, kServer);
    const Result<HttpResponse> response =
        client.stream({.target = "/private"}, 10s, 5s, [](std::string_view) { return ADD_FAILURE(), false; });
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, 401);
    EXPECT_EQ(response->body, "who are you");
  });
}

// A request that may be executed twice is sent again on a new connection; another one is not.
TEST(HttpClient, RepeatsOnlyWhatMayBeRepeated) {
  const std::string kept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  with_script({kept, kept, kept}, [](Network& network, std::vector<std::string>& heads) {
    HttpClient client(network, kServer);
    EXPECT_EQ(client.call({}, 10s)->body, "ok");
    EXPECT_EQ(client.call({}, 10s)->body, "ok");  // The first connection is closed by now.
    EXPECT_EQ(heads.size(), 2U);
    EXPECT_EQ(client.call({.method = "POST", .body = "x"}, 10s).code(), ErrorCode::kUnavailable);
    EXPECT_EQ(heads.size(), 2U);
    EXPECT_EQ(client.call({.method = "POST", .body = "x"}, 10s)->body, "ok");  // A new one: nothing was in doubt.
  });
  with_script({kept, kept}, [](Network& network, std::vector<std::string>& heads) {
    HttpClient client(network, kServer);
    EXPECT_EQ(client.call({}, 10s)->body, "ok");
    EXPECT_EQ(client.call({.method = "POST", .fields = {{"Idempotency-Key", "k"}}, .body = "x"}, 10s)->body, "ok");
    EXPECT_EQ(heads.size(), 2U);
  });
}

TEST(HttpClient, RefusesWhatIsNotAResponse) {
  for (const char* text : {
           "SSH-2.0-OpenSSH_9.2\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
           "HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n",
       }) {
    EXPECT_EQ(answer_to(text).code(), ErrorCode::kCorrupt) << text;
  }
  EXPECT_EQ(answer_to("").code(), ErrorCode::kClosed);
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok").code(), ErrorCode::kClosed);
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").code(), ErrorCode::kClosed);
}

TEST(HttpClient, HasBounds) {
  const std::string many(101, 'x');
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + many).code(), ErrorCode::kTooLarge);
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + many + "\r\n0\r\n\r\n").code(),
            ErrorCode::kTooLarge);
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\n\r\n" + many).code(), ErrorCode::kTooLarge);  // Until the end.
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nA: " + std::string(2000, 'a') + "\r\n\r\n").code(), ErrorCode::kTooLarge);
  std::string interim;
  for (int i = 0; i < 20; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(answer_to(interim + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(answer_to("silence").code(), ErrorCode::kDeadlineExceeded);
}

TEST(HttpClient, UnderstandsOtherServers) {
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\n\r\nuntil the end")->body, "until the end");
  EXPECT_EQ(answer_to("HTTP/1.0 200 OK\r\n\r\nold")->body, "old");
  EXPECT_EQ(answer_to("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")->status, 204);
  EXPECT_EQ(answer_to("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", {.method = "HEAD"})->body, "");
  EXPECT_EQ(answer_to("HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n")->status, 302);
}

TEST(HttpClient, SaysWhenNobodyListens) {
  SimNetwork sim{SimNetworkOptions{}};
  fiber::Runtime runtime({.worker_count = 1, .deterministic_seed = 5});
  runtime.run([&] {
    HttpClient client(sim.node("a"), {.host = "nobody", .port = 1});
    EXPECT_EQ(client.call({}, 10s).code(), ErrorCode::kUnavailable);
  });
}

TEST(HttpUrl, Forms) {
  EXPECT_EQ(HttpUrl::parse("https://rota.example")->to_string(), "https://rota.example:443");
  EXPECT_EQ(HttpUrl::parse("http://127.0.0.1:7070/")->to_string(), "http://127.0.0.1:7070");
  EXPECT_EQ(HttpUrl::parse("https://[::1]")->to_string(), "https://[::1]:443");
  EXPECT_EQ(HttpUrl::parse("https://[::1]:8")->to_string(), "https://[::1]:8");
  for (const char* text : {"", "rota.example", "ftp://a", "https://", "https://a/v1", "https://user:secret@a",
                           "https://a:0", "https://a:99999", "https://a?x", "https://:80"}) {
    const Result<HttpUrl> url = HttpUrl::parse(text);
    EXPECT_EQ(url.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_EQ(url.error().message.find("secret"), std::string::npos);
  }
}

TEST(Http, EncodesWhatATargetMayNotContain) {
  EXPECT_EQ(percent_encode("gpu 1/a?\xC3\xA9~"), "gpu%201%2Fa%3F%C3%A9~");
  HttpRequest request;
  request.target = "/" + percent_encode("a b&c=d") + "?q=" + percent_encode("x+y&z");
  ASSERT_TRUE(parse_target(request).ok());
  EXPECT_EQ(request.path, "/a b&c=d");
  EXPECT_EQ(*request.parameter("q"), "x+y&z");
}

}  // namespace
}  // namespace rota::net
