// TLS streams: the conformance suite over real and simulated networks, every check of a certificate, and what makes a
// TLS stream different from another.
#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "fiber/testing.h"
#include "net/reserved_port_testing.h"
#include "net/sim_network.h"
#include "net/stream_conformance.h"
#include "net/tls_testing.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;
using testing::Identity;
using testing::KeyKind;
using testing::LeafOptions;
using testing::server_options;
using testing::TestCa;

const TestCa& ca() {
  static const TestCa authority("Test CA");
  return authority;
}

struct Contexts {
  std::shared_ptr<TlsContext> client;
  std::shared_ptr<TlsContext> server;
};

Contexts contexts(const TlsSettings& settings = {}, const LeafOptions& leaf = {}) {
  TlsServerOptions server = server_options(ca().issue(leaf), ca());
  server.settings = settings;
  return {TlsContext::client({.ca = ca().source(), .settings = settings}).value(),
          TlsContext::server(std::move(server)).value()};
}

// ------------------------------------------------------------------------------------------------------ conformance

template <class Base>
struct Over {
  static constexpr std::uint64_t kSeeds = Base::kSeeds;
  static constexpr std::size_t kBulkBytes = Base::kBulkBytes;
  Base base{};
  Contexts shared = contexts(Base::settings());
  TlsNetwork tls{base.network(), shared.client, shared.server};
  Network& network() { return tls; }
  Endpoint endpoint() { return base.endpoint(); }
  static Result<void> ready(ByteStream& accepted) { return dynamic_cast<TlsStream&>(accepted).handshake({}); }
};

struct Tcp {
  static constexpr std::uint64_t kSeeds = 0;
  static constexpr std::size_t kBulkBytes = std::size_t{24} << 20;
  const ReservedPort port{};  // A listener gives it up and another one takes it.
  Network& network() { return real_network(); }
  Endpoint endpoint() { return {.host = "127.0.0.1", .port = port.number()}; }
  static TlsSettings settings() { return {}; }
};
// The version before, and new keys every few records (which 1.2 does not have).
struct Tcp12 : Tcp {
  static TlsSettings settings() {
    return {.min_version = TlsVersion::k12, .max_version = TlsVersion::k12, .rekey_after_records = 3};
  }
};

struct Simulated {
  static constexpr std::uint64_t kSeeds = 3;
  static constexpr std::size_t kBulkBytes = 200'000;
  SimNetwork sim{{.loopback = {.latency = 50us, .jitter = 30us, .max_segment_bytes = 3'000}}};
  Network& network() { return sim.node("b"); }
  Endpoint endpoint() { return {.host = "b"}; }
  static TlsSettings settings() { return {}; }
};
// One byte at a time, with new keys at almost every record.
struct Narrow {
  static constexpr std::uint64_t kSeeds = 3;
  static constexpr std::size_t kBulkBytes = 5'000;
  SimNetwork sim{{.loopback = {.latency = 1us, .max_segment_bytes = 1}, .buffer_bytes = 500}};
  Network& network() { return sim.node("b"); }
  Endpoint endpoint() { return {.host = "b"}; }
  static TlsSettings settings() { return {.rekey_after_records = 2}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(TlsOverTcp, StreamConformance, Over<Tcp>);
INSTANTIATE_TYPED_TEST_SUITE_P(Tls12OverTcp, StreamConformance, Over<Tcp12>);
INSTANTIATE_TYPED_TEST_SUITE_P(TlsOverSimulated, StreamConformance, Over<Simulated>);
INSTANTIATE_TYPED_TEST_SUITE_P(TlsOverNarrow, StreamConformance, Over<Narrow>);

// ------------------------------------------------------------------------------------------------------- handshakes

// The two ends of a connection on a simulated network, without a handshake.
struct RawPair {
  std::unique_ptr<ByteStream> client;
  std::unique_ptr<ByteStream> server;
};
RawPair raw_pair(SimNetwork& sim) {
  RawPair pair;
  auto listener = sim.node("b").listen({.host = "b"}).value();
  fiber::with_scope([&](fiber::Nursery& n) {
    n.launch([&] { pair.server = listener->accept({}).value(); });
    pair.client = sim.node("a").connect(listener->endpoint(), {}).value();
  });
  return pair;
}

struct Handshake {
  std::unique_ptr<TlsStream> client;
  std::unique_ptr<TlsStream> server;
  Result<void> client_end;
  Result<void> server_end;
};
Handshake shake_hands(RawPair pair, const TlsContext& client, const TlsContext& server, const std::string& name = "b") {
  Handshake h{TlsStream::client(std::move(pair.client), client, name).value(),
              TlsStream::server(std::move(pair.server), server).value(),
              {},
              {}};
  fiber::with_scope([&](fiber::Nursery& n) {
    n.launch([&] { h.server_end = h.server->handshake({}); });
    h.client_end = h.client->handshake({});
  });
  return h;
}

// Runs a handshake over a simulated network, and then the body.
void with_handshake(const TlsContext& client, const TlsContext& server, const std::string& name,
                    const std::function<void(Handshake&)>& body) {
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    Handshake h = shake_hands(raw_pair(sim), client, server, name);
    body(h);
  });
}

std::string detail_of(const Result<void>& result, const char* key) {
  const std::string* value = result.ok() ? nullptr : result.error().detail(key);
  return value == nullptr ? "" : *value;
}

// The client refuses the server for the reason, with the words; the server learns that it was refused.
void expect_refused(const TlsContext& client, const TlsContext& server, const std::string& name,
                    const std::string& kind, const std::string& words) {
  SCOPED_TRACE(kind);
  with_handshake(client, server, name, [&](Handshake& h) {
    ASSERT_EQ(h.client_end.code(), ErrorCode::kUnauthenticated) << text_of(h.client_end);
    EXPECT_EQ(detail_of(h.client_end, "tls"), kind);
    EXPECT_NE(h.client_end.error().message.find(words), std::string::npos) << h.client_end.error().message;
    EXPECT_NE(h.client_end.error().message.find(h.client->peer()), std::string::npos);
    EXPECT_FALSE(h.server_end.ok());
    // Nothing can be exchanged after it.
    EXPECT_EQ(h.client->write_all("x", {}).code(), ErrorCode::kUnauthenticated);
    char byte = 0;
    EXPECT_EQ(h.client->read_some({&byte, 1}, {}).code(), ErrorCode::kUnauthenticated);
  });
}

// Contract: H-5. Each check of the server's certificate refuses it, and says what is wrong and what to do.
TEST(Tls, ServerCertificateChecks) {
  const auto client = TlsContext::client({.ca = ca().source()}).value();
  const auto server = [](const TestCa& authority, const LeafOptions& leaf) {
    return TlsContext::server(server_options(authority.issue(leaf), authority)).value();
  };
  expect_refused(*client, *server(ca(), {.common_name = "old", .valid_from = -2h, .valid_to = -1h}), "b", "expired",
                 "'old' expired on ");
  expect_refused(*client, *server(ca(), {.common_name = "young", .valid_from = 1h, .valid_to = 2h}), "b",
                 "not_yet_valid", "'young' is not valid before ");
  expect_refused(*client, *server(ca(), {.names = "DNS:other.example,IP:10.0.0.7"}), "b", "wrong_name",
                 "is for 'other.example', '10.0.0.7', not for 'b'");
  expect_refused(*client, *server(ca(), {}), "127.0.0.2", "wrong_name", "not for '127.0.0.2'");
  expect_refused(*client, *server(ca(), {.common_name = "b", .names = ""}), "b", "wrong_name",
                 "subjectAltName is missing");
  const TestCa stranger("Strange CA");
  expect_refused(*client, *server(stranger, {}), "b", "unknown_ca", "signed by 'Strange CA', which is not among");
  // The same name as the right CA, another key.
  const TestCa impostor("Test CA");
  expect_refused(*client, *server(impostor, {}), "b", "unknown_ca", "Test CA");
}

// Contract: H-5. A name, a wildcard and a numeric address are accepted if the certificate has them.
TEST(Tls, ServerNames) {
  const auto client = TlsContext::client({.ca = ca().source()}).value();
  const auto server =
      TlsContext::server(server_options(ca().issue({.names = "DNS:*.example.org,DNS:b,IP:10.0.0.7,IP:::1"}), ca()))
          .value();
  for (const char* name : {"b", "B", "redis.example.org", "10.0.0.7", "::1"}) {
    SCOPED_TRACE(name);
    with_handshake(*client, *server, name, [&](Handshake& h) {
      EXPECT_TRUE(h.client_end.ok()) << text_of(h.client_end);
      EXPECT_TRUE(h.server_end.ok()) << text_of(h.server_end);
    });
  }
  expect_refused(*client, *server, "a.b.example.org", "wrong_name", "not for 'a.b.example.org'");
  fiber::Runtime runtime({.deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    EXPECT_EQ(TlsStream::client(raw_pair(sim).client, *client, "").code(), ErrorCode::kInvalidArgument);
  });
}

// Contract: H-5. A CA that is known only by its SHA-256 is accepted when the server presents it, and nothing else is.
TEST(Tls, PinnedCa) {
  const auto pinned = [](const TestCa& authority, bool upper) {
    std::string hash = certificate_sha256(authority.source()).value();
    if (upper) std::transform(hash.begin(), hash.end(), hash.begin(), [](char c) { return std::toupper(c); });
    return TlsContext::client({.ca_sha256 = hash}).value();
  };
  const Identity leaf = ca().issue();
  const auto server = TlsContext::server(server_options(leaf, ca())).value();
  with_handshake(*pinned(ca(), false), *server, "b",
                 [](Handshake& h) { EXPECT_TRUE(h.client_end.ok()) << text_of(h.client_end); });
  with_handshake(*pinned(ca(), true), *server, "b", [](Handshake& h) { EXPECT_TRUE(h.client_end.ok()); });
  const TestCa other("Other CA");
  expect_refused(*pinned(other, false), *server, "b", "wrong_pin", "SHA-256 that was pinned");
  const auto without_ca =
      TlsContext::server({.certificate = {.text = leaf.certificate}, .key = {.text = leaf.key}}).value();
  expect_refused(*pinned(ca(), false), *without_ca, "b", "wrong_pin", "does not send its CA");
  // The pinned certificate does not excuse the other checks: the chain must lead to it, with name and dates.
  const Identity foreign = other.issue();
  const auto appended =
      TlsContext::server({.certificate = {.text = foreign.certificate + ca().pem()}, .key = {.text = foreign.key}})
          .value();
  expect_refused(*pinned(ca(), false), *appended, "b", "unknown_ca", "Other CA");
  expect_refused(*pinned(ca(), false), *server, "c", "wrong_name", "not for 'c'");
  const std::string digits(63, '0');
  for (const std::string& bad : {digits, digits + "00", digits + "g", digits + " "}) {
    EXPECT_EQ(TlsContext::client({.ca_sha256 = bad}).code(), ErrorCode::kInvalidArgument) << bad;
  }
}

// Contract: H-5. A server with a CA for clients refuses clients without a certificate or with another CA's, and knows
// who the others are. The client's first read says why.
TEST(Tls, ClientCertificates) {
  const TestCa client_ca("Client CA");
  const TestCa stranger("Strange CA");
  TlsServerOptions options = server_options(ca().issue(), ca());
  options.client_ca = client_ca.source();
  const auto server = TlsContext::server(options).value();
  const auto client = [](const Identity& identity) {
    return TlsContext::client(
               {.ca = ca().source(), .certificate = {.text = identity.certificate}, .key = {.text = identity.key}})
        .value();
  };
  const Identity worker = client_ca.issue({.common_name = "worker-7", .names = ""});
  with_handshake(*client(worker), *server, "b", [&](Handshake& h) {
    ASSERT_TRUE(h.client_end.ok()) << text_of(h.client_end);
    ASSERT_TRUE(h.server_end.ok()) << text_of(h.server_end);
    EXPECT_EQ(h.server->tls_peer().certificate_name, "worker-7");
    EXPECT_EQ(h.server->tls_peer().certificate_sha256, certificate_sha256({.text = worker.certificate}).value());
    EXPECT_EQ(h.client->tls_peer().certificate_name, "leaf");
    EXPECT_EQ(h.client->tls_peer().version, "TLSv1.3");
  });
  const auto refused = [&](const TlsContext& by, const char* kind, const char* server_words, const char* client_words) {
    with_handshake(by, *server, "b", [&](Handshake& h) {
      ASSERT_EQ(h.server_end.code(), ErrorCode::kUnauthenticated) << text_of(h.server_end);
      EXPECT_EQ(detail_of(h.server_end, "tls"), kind);
      EXPECT_NE(h.server_end.error().message.find(server_words), std::string::npos) << h.server_end.error().message;
      char byte = 0;
      const Result<std::size_t> read = h.client->read_some({&byte, 1}, {});
      ASSERT_EQ(read.code(), ErrorCode::kUnauthenticated) << text_of(read);
      EXPECT_NE(read.error().message.find(client_words), std::string::npos) << read.error().message;
    });
  };
  refused(*TlsContext::client({.ca = ca().source()}).value(), "bad_certificate", "the peer presented no certificate",
          "requires a certificate of this end");
  refused(*client(stranger.issue()), "unknown_ca", "signed by 'Strange CA'", "refused the certificate of this end");
  refused(*client(client_ca.issue({.valid_from = -2h, .valid_to = -1h})), "expired", "expired on",
          "refused the certificate of this end");
}

// Contract: H-5. TLS 1.3 is the default; 1.2 is used only if both ends allow it, and 1.3 if both can.
TEST(Tls, Versions) {
  constexpr TlsVersion k12 = TlsVersion::k12;
  constexpr TlsVersion k13 = TlsVersion::k13;
  const auto server = [](TlsVersion min_version) {
    TlsServerOptions options = server_options(ca().issue(), ca());
    options.settings.min_version = min_version;
    return TlsContext::server(options).value();
  };
  const auto client = [](TlsVersion min_version, TlsVersion max_version) {
    return TlsContext::client(
        {.ca = ca().source(), .settings = {.min_version = min_version, .max_version = max_version}});
  };
  with_handshake(*client(k12, k12).value(), *server(k12), "b", [](Handshake& h) {
    EXPECT_TRUE(h.client_end.ok()) << text_of(h.client_end);
    EXPECT_EQ(h.client->tls_peer().version, "TLSv1.2");
    EXPECT_EQ(h.server->tls_peer().version, "TLSv1.2");
  });
  with_handshake(*client(k12, k13).value(), *server(k12), "b",
                 [](Handshake& h) { EXPECT_EQ(h.client->tls_peer().version, "TLSv1.3"); });
  with_handshake(*client(k12, k12).value(), *server(k13), "b", [](Handshake& h) {
    for (const Result<void>* end : {&h.client_end, &h.server_end}) {
      ASSERT_EQ(end->code(), ErrorCode::kUnsupported) << text_of(*end);
      EXPECT_NE(end->error().message.find("no TLS version that this end allows"), std::string::npos) << text_of(*end);
    }
  });
  EXPECT_EQ(client(k13, k12).code(), ErrorCode::kInvalidArgument);
}

// Contract: H-5. The server's preferred protocol among those that the client offers is chosen; without a common one the
// handshake fails at both ends with a sentence.
TEST(Tls, Alpn) {
  const auto agreed = [](std::vector<std::string> client, std::vector<std::string> server) {
    std::string chosen;
    TlsServerOptions options = server_options(ca().issue(), ca());
    options.settings.alpn = std::move(server);
    const auto offers = TlsContext::client({.ca = ca().source(), .settings = {.alpn = std::move(client)}}).value();
    with_handshake(*offers, *TlsContext::server(options).value(), "b", [&](Handshake& h) {
      if (!h.client_end.ok()) {
        EXPECT_EQ(h.client_end.code(), ErrorCode::kUnsupported) << text_of(h.client_end);
        EXPECT_NE(h.client_end.error().message.find("ALPN"), std::string::npos) << text_of(h.client_end);
        EXPECT_EQ(h.server_end.code(), ErrorCode::kUnsupported) << text_of(h.server_end);
        chosen = "none";
        return;
      }
      EXPECT_EQ(h.client->tls_peer().alpn, h.server->tls_peer().alpn);
      chosen = h.client->tls_peer().alpn;
    });
    return chosen;
  };
  EXPECT_EQ(agreed({"http/1.1", "h2"}, {"h2", "http/1.1"}), "h2");
  EXPECT_EQ(agreed({"http/1.1"}, {"h2", "http/1.1"}), "http/1.1");
  EXPECT_EQ(agreed({}, {"h2"}), "");
  EXPECT_EQ(agreed({"h2"}, {}), "");
  EXPECT_EQ(agreed({"h3"}, {"h2"}), "none");
  EXPECT_EQ(TlsContext::client({.ca = ca().source(), .settings = {.alpn = {""}}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(TlsContext::client({.ca = ca().source(), .settings = {.alpn = {std::string(256, 'x')}}}).code(),
            ErrorCode::kInvalidArgument);
}

// Contract: H-5. A handshake has a limit of its own, whatever the deadline; a shorter deadline leaves it unfinished,
// and a later call continues it.
TEST(Tls, HandshakeLimit) {
  const Contexts both = contexts({.handshake_limit = 5s});
  fiber::Runtime runtime({.deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    {
      RawPair silent = raw_pair(sim);
      const auto start = fiber::now();
      auto client = TlsStream::client(std::move(silent.client), *both.client, "b").value();
      EXPECT_EQ(client->handshake(1s).code(), ErrorCode::kDeadlineExceeded);
      EXPECT_EQ(fiber::now() - start, 1s);
      const Result<void> late = client->handshake({});
      ASSERT_EQ(late.code(), ErrorCode::kTimeout) << text_of(late);
      EXPECT_EQ(fiber::now() - start, 5s);
      EXPECT_NE(late.error().message.find("took longer than 5000 ms"), std::string::npos) << late.error().message;
      EXPECT_EQ(client->write_all("x", {}).code(), ErrorCode::kTimeout);
    }
    RawPair pair = raw_pair(sim);
    auto client = TlsStream::client(std::move(pair.client), *both.client, "b").value();
    EXPECT_EQ(client->handshake(1s).code(), ErrorCode::kDeadlineExceeded);
    auto server = TlsStream::server(std::move(pair.server), *both.server).value();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { EXPECT_TRUE(server->handshake({}).ok()); });
      const Result<void> continued = client->handshake({});
      EXPECT_TRUE(continued.ok()) << text_of(continued);
    });
  });
}

// Contract: H-5. Reader and writer of both ends may all begin at once: one of them shakes hands for the other.
TEST(Tls, HandshakeByWhoeverIsFirst) {
  const Contexts both = contexts();
  fiber::in_all_modes([&] {
    SimNetwork sim;
    RawPair pair = raw_pair(sim);
    auto client = TlsStream::client(std::move(pair.client), *both.client, "b").value();
    auto server = TlsStream::server(std::move(pair.server), *both.server).value();
    fiber::with_scope([&](fiber::Nursery& n) {
      for (TlsStream* stream : {client.get(), server.get()}) {
        n.launch([stream] { EXPECT_TRUE(stream->write_all("hello", {}).ok()); });
        n.launch([stream] {
          char buffer[5];
          EXPECT_TRUE(stream->read_exactly(buffer, {}).ok());
          EXPECT_EQ(std::string(buffer, 5), "hello");
        });
      }
    });
  });
}

// ---------------------------------------------------------------------------------------------------------- streams

// Contract: H-5. An end without close_notify is an error: somebody may have cut the connection.
TEST(Tls, Truncation) {
  const Contexts both = contexts();
  with_handshake(*both.client, *both.server, "b", [](Handshake& h) {
    ASSERT_TRUE(h.client_end.ok() && h.server_end.ok());
    ASSERT_TRUE(h.client->write_all("half a mess", {}).ok());
    h.client->close();
    char buffer[100];
    EXPECT_EQ(h.server->read_some(buffer, {}).value(), 11U);
    for (int i = 0; i < 2; ++i) {  // It stays an error.
      const Result<std::size_t> end = h.server->read_some(buffer, {});
      ASSERT_EQ(end.code(), ErrorCode::kClosed) << text_of(end);
      EXPECT_EQ(*end.error().detail("tls"), "truncated");
    }
  });
  with_handshake(*both.client, *both.server, "b", [](Handshake& h) {
    ASSERT_TRUE(h.client->write_all("whole", {}).ok());
    ASSERT_TRUE(h.client->shutdown_write({}).ok());
    h.client->close();
    char buffer[100];
    EXPECT_EQ(h.server->read_some(buffer, {}).value(), 5U);
    EXPECT_EQ(h.server->read_some(buffer, {}).value(), 0U);
    EXPECT_EQ(h.server->read_some(buffer, {}).value(), 0U);
  });
}

// Passes bytes on and lets the test change them.
class Meddler final : public ByteStream {
 public:
  explicit Meddler(std::unique_ptr<ByteStream> inner) : inner_(std::move(inner)) {}
  Result<std::size_t> read_some(std::span<char> buffer, Deadline deadline) override {
    Result<std::size_t> count = inner_->read_some(buffer, deadline);
    if (count.ok() && change_next && *count > 0) {
      buffer[*count - 1] = static_cast<char>(buffer[*count - 1] ^ 1);
      change_next = false;
    }
    return count;
  }
  Result<void> write_all(std::string_view bytes, Deadline deadline) override {
    written += bytes;
    return inner_->write_all(bytes, deadline);
  }
  Result<void> shutdown_write(Deadline deadline) override { return inner_->shutdown_write(deadline); }
  void close() override { inner_->close(); }
  [[nodiscard]] std::string peer() const override { return inner_->peer(); }

  bool change_next = false;
  std::string written{};

 private:
  std::unique_ptr<ByteStream> inner_;
};

// Contract: H-5. The network carries no plain text, and a changed bit is noticed at once and for good.
TEST(Tls, SecrecyAndIntegrity) {
  const Contexts both = contexts();
  fiber::Runtime runtime({.deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    RawPair pair = raw_pair(sim);
    auto owned = std::make_unique<Meddler>(std::move(pair.client));
    Meddler& meddler = *owned;
    pair.client = std::move(owned);
    Handshake h = shake_hands(std::move(pair), *both.client, *both.server);
    ASSERT_TRUE(h.client_end.ok() && h.server_end.ok());
    const std::string secret = "the password is 1234";
    ASSERT_TRUE(h.client->write_all(secret, {}).ok());
    EXPECT_GT(meddler.written.size(), secret.size());
    EXPECT_EQ(meddler.written.find(secret), std::string::npos);
    ASSERT_TRUE(h.server->write_all("first", {}).ok());
    char buffer[100];
    EXPECT_EQ(h.client->read_some(buffer, {}).value(), 5U);
    ASSERT_TRUE(h.server->write_all("second", {}).ok());
    meddler.change_next = true;
    const Result<std::size_t> changed = h.client->read_some(buffer, {});
    ASSERT_EQ(changed.code(), ErrorCode::kCorrupt) << text_of(changed);
    EXPECT_EQ(h.client->read_some(buffer, {}).error(), changed.error());
    EXPECT_EQ(h.client->write_all("x", {}).code(), ErrorCode::kCorrupt);
    EXPECT_EQ(h.server->read_some(buffer, {}).value(), secret.size());
    const Result<std::size_t> told = h.server->read_some(buffer, {});  // By an alert.
    EXPECT_EQ(told.code(), ErrorCode::kClosed) << text_of(told);
    EXPECT_NE(told.error().message.find("bad record mac"), std::string::npos) << told.error().message;
  });
}

// Contract: H-5. What another task left in the thread's error queue does not disturb a stream.
TEST(Tls, ErrorsOfOthers) {
  const Contexts both = contexts();
  const auto leave_error = [] { ERR_raise(ERR_LIB_SSL, SSL_R_BAD_SIGNATURE); };
  leave_error();
  with_handshake(*both.client, *both.server, "b", [&](Handshake& h) {
    ASSERT_TRUE(h.client_end.ok() && h.server_end.ok()) << text_of(h.client_end);
    char byte = 0;
    leave_error();
    EXPECT_EQ(h.client->read_some({&byte, 1}, 1s).code(), ErrorCode::kDeadlineExceeded);
    leave_error();
    ASSERT_TRUE(h.server->write_all("x", {}).ok());
    leave_error();
    EXPECT_EQ(h.client->read_some({&byte, 1}, {}).value(), 1U);
    leave_error();
    ASSERT_TRUE(h.server->shutdown_write({}).ok());
    leave_error();
    EXPECT_EQ(h.client->read_some({&byte, 1}, {}).value(), 0U);
  });
}

// Contract: H-5. Peers that do not speak TLS get a sentence that says so.
TEST(Tls, PeersWithoutTls) {
  const Contexts both = contexts();
  const auto client_gets = [&](const std::string& bytes, bool end) {
    Result<void> outcome;
    fiber::Runtime runtime({.deterministic_seed = 1});
    runtime.run([&] {
      SimNetwork sim;
      RawPair pair = raw_pair(sim);
      auto client = TlsStream::client(std::move(pair.client), *both.client, "b").value();
      fiber::with_scope([&](fiber::Nursery& n) {
        n.launch([&] {
          char buffer[1000];
          (void)pair.server->read_some(buffer, {});
          if (!bytes.empty()) (void)pair.server->write_all(bytes, {});
          if (end) (void)pair.server->shutdown_write({});
        });
        outcome = client->handshake({});
      });
    });
    return outcome;
  };
  const Result<void> redis = client_gets("-ERR unknown command\r\n", false);
  EXPECT_EQ(redis.code(), ErrorCode::kUnsupported) << text_of(redis);
  EXPECT_NE(redis.error().message.find("does not speak TLS"), std::string::npos) << redis.error().message;
  const Result<void> ended = client_gets("", true);
  EXPECT_EQ(ended.code(), ErrorCode::kClosed) << text_of(ended);
  EXPECT_NE(ended.error().message.find("check that it speaks TLS"), std::string::npos) << ended.error().message;
  // A plain HTTP request to a TLS server.
  fiber::Runtime runtime({.deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    RawPair pair = raw_pair(sim);
    auto server = TlsStream::server(std::move(pair.server), *both.server).value();
    ASSERT_TRUE(pair.client->write_all("GET / HTTP/1.1\r\n\r\n", {}).ok());
    const Result<void> end = server->handshake({});
    EXPECT_EQ(end.code(), ErrorCode::kUnsupported) << text_of(end);
  });
}

// Contract: H-5. Keys are changed again and again while both ends write at the same time as they read.
TEST(Tls, KeyUpdatesInBothDirections) {
  const Contexts both = contexts({.rekey_after_records = 3});
  fiber::in_all_modes([&] {
    SimNetwork sim({.link = {.max_segment_bytes = 2'000}, .buffer_bytes = 5'000});
    Handshake h = shake_hands(raw_pair(sim), *both.client, *both.server);
    ASSERT_TRUE(h.client_end.ok() && h.server_end.ok());
    fiber::with_scope([&](fiber::Nursery& n) {
      for (TlsStream* stream : {h.client.get(), h.server.get()}) {
        n.launch([stream] {
          for (std::uint64_t i = 0; i < 40; ++i) {
            const Result<void> written = stream->write_all(test_bytes(i, 500 + 700 * (i % 4)), {});
            ASSERT_TRUE(written.ok()) << text_of(written);
          }
        });
        n.launch([stream] {
          for (std::uint64_t i = 0; i < 40; ++i) {
            std::string bytes(500 + 700 * (i % 4), '\0');
            const Result<void> read = stream->read_exactly(bytes, {});
            ASSERT_TRUE(read.ok()) << text_of(read);
            ASSERT_EQ(bytes, test_bytes(i, bytes.size()));
          }
        });
      }
    });
  });
}

// Contract: H-5. One end only writes and asks for new keys very often, the other only reads: its answers do not block
// it. They wait in the ring, which they fill once in the second case and nearly in the first, and leave before the next
// data.
TEST(Tls, KeyUpdatesOfAReaderThatNeverWrites) {
  const Contexts both = contexts({.rekey_after_records = 1});
  for (const std::size_t writes : {2'200U, 3'000U}) {
    with_handshake(*both.client, *both.server, "b", [&](Handshake& h) {
      ASSERT_TRUE(h.client_end.ok() && h.server_end.ok());
      const std::string answer = test_bytes(9, 16 << 10);
      fiber::with_scope([&](fiber::Nursery& n) {
        n.launch([&] {
          for (std::size_t i = 0; i < writes; ++i) ASSERT_TRUE(h.client->write_all("x", {}).ok());
          ASSERT_TRUE(h.client->shutdown_write({}).ok());
        });
        n.launch([&] {
          std::string got(answer.size(), '\0');
          const Result<void> read = h.client->read_exactly(got, {});
          ASSERT_TRUE(read.ok()) << text_of(read);
          EXPECT_EQ(got, answer);
        });
        std::string bytes(writes, '\0');
        const Result<void> read = h.server->read_exactly(bytes, {});
        ASSERT_TRUE(read.ok()) << text_of(read);
        const Result<void> written = h.server->write_all(answer, {});
        EXPECT_TRUE(written.ok()) << text_of(written);
      });
    });
  }
}

// --------------------------------------------------------------------------------------------------------- contexts

// A file that is removed with this object.
class File {
 public:
  explicit File(const std::string& text) {
    char name[] = "/tmp/rota_tls_XXXXXX";
    ::close(mkstemp(name));
    path = name;
    write(text);
  }
  ~File() { unlink(path.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void write(const std::string& text) const { std::ofstream(path) << text; }
  [[nodiscard]] PemSource source() const { return {.path = path}; }
  std::string path;
};

// Contract: H-5. A reload takes new certificates for new connections; old ones continue. A bad file changes nothing.
TEST(Tls, Reload) {
  const Identity first = ca().issue({.common_name = "first"});
  const Identity second = ca().issue({.common_name = "second", .key = KeyKind::kP256});
  const File certificate(first.certificate);
  const File key(first.key);
  const auto server = TlsContext::server({.certificate = certificate.source(), .key = key.source()}).value();
  const auto client = TlsContext::client({.ca = ca().source()}).value();
  fiber::Runtime runtime({.deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    Handshake old = shake_hands(raw_pair(sim), *client, *server);
    EXPECT_EQ(old.client->tls_peer().certificate_name, "first");
    certificate.write(second.certificate);
    const Result<void> mismatch = server->reload();  // The key is still the first one.
    ASSERT_EQ(mismatch.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(mismatch.error().message.find(key.path + "' does not belong to"), std::string::npos)
        << mismatch.error().message;
    EXPECT_EQ(shake_hands(raw_pair(sim), *client, *server).client->tls_peer().certificate_name, "first");
    key.write(second.key);
    const Result<void> reloaded = server->reload();
    ASSERT_TRUE(reloaded.ok()) << text_of(reloaded);
    EXPECT_EQ(shake_hands(raw_pair(sim), *client, *server).client->tls_peer().certificate_name, "second");
    ASSERT_TRUE(old.client->write_all("still here", {}).ok());
    char buffer[10];
    EXPECT_TRUE(old.server->read_exactly(buffer, {}).ok());
  });
}

// Contract: H-5. Files that are missing, empty, of another kind or encrypted are refused with their name and the
// reason.
TEST(Tls, BadFiles) {
  const Identity leaf = ca().issue();
  const File certificate(leaf.certificate);
  const File key(leaf.key);
  const File empty("");
  const File junk("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const auto expect = [](const Result<std::shared_ptr<TlsContext>>& made, ErrorCode code, const std::string& words) {
    ASSERT_EQ(made.code(), code) << text_of(made);
    EXPECT_NE(made.error().message.find(words), std::string::npos) << made.error().message;
  };
  expect(TlsContext::client({.ca = {.path = "/nowhere/ca.pem"}}), ErrorCode::kNotFound,
         "read the CA certificates '/nowhere/ca.pem': No such file");
  expect(TlsContext::client({.ca = empty.source()}), ErrorCode::kInvalidArgument,
         empty.path + "' holds no certificate");
  expect(TlsContext::client({.ca = key.source()}), ErrorCode::kInvalidArgument, key.path + "' holds no certificate");
  expect(TlsContext::client({.ca = junk.source()}), ErrorCode::kInvalidArgument, "is not a certificate");
  expect(TlsContext::client({}), ErrorCode::kInvalidArgument, "either the certificates of trusted CAs, or the SHA-256");
  expect(TlsContext::client({.ca = ca().source(), .certificate = certificate.source()}), ErrorCode::kInvalidArgument,
         "one of them is missing");
  expect(TlsContext::server({}), ErrorCode::kInvalidArgument, "needs a certificate");
  expect(TlsContext::server({.certificate = certificate.source()}), ErrorCode::kInvalidArgument,
         "one of them is missing");
  expect(TlsContext::server({.certificate = certificate.source(), .key = certificate.source()}),
         ErrorCode::kInvalidArgument, certificate.path + "' holds no private key");
  expect(TlsContext::server({.certificate = certificate.source(), .key = {.text = ca().issue().key}}),
         ErrorCode::kInvalidArgument, "does not belong to the certificate '" + certificate.path + "'");
  expect(TlsContext::server({.certificate = certificate.source(), .key = key.source(), .client_ca = empty.source()}),
         ErrorCode::kInvalidArgument, "holds no certificate");
  EXPECT_EQ(certificate_sha256(certificate.source()).value(), certificate_sha256({.text = leaf.certificate}).value());
  EXPECT_EQ(certificate_sha256(certificate.source()).value().size(), 64U);
}

// Contract: S-1. Certificates are checked by a clock that the simulator gives.
TEST(Tls, WallClock) {
  const auto at = [](std::chrono::seconds offset) {
    return TlsContext::client({.ca = ca().source(),
                               .settings = {.wall_clock = [offset] { return std::time(nullptr) + offset.count(); }}})
        .value();
  };
  const auto server = TlsContext::server(server_options(ca().issue(), ca())).value();
  with_handshake(*at(0s), *server, "b", [](Handshake& h) { EXPECT_TRUE(h.client_end.ok()) << text_of(h.client_end); });
  expect_refused(*at(2h), *server, "b", "expired", "expired on");
  expect_refused(*at(-2h), *server, "b", "not_yet_valid", "is not valid before");
}

// Contract: H-5. A TLS network without settings for a role refuses it; a server that cannot be reached is Unavailable.
TEST(Tls, NetworkWithoutSettings) {
  const Contexts both = contexts();
  fiber::Runtime runtime({.deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    TlsNetwork neither(sim.node("b"), nullptr);
    EXPECT_EQ(neither.connect({.host = "b", .port = 1}, {}).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(neither.listen({.host = "b", .port = 1}).code(), ErrorCode::kFailedPrecondition);
    TlsNetwork client(sim.node("b"), both.client);
    EXPECT_EQ(client.connect({.host = "b", .port = 1}, {}).code(), ErrorCode::kUnavailable);
    auto plain = sim.node("b").listen({.host = "b", .port = 1}).value();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { plain->accept({}).value()->close(); });
      const auto ended = client.connect({.host = "b", .port = 1}, {});
      EXPECT_EQ(ended.code(), ErrorCode::kUnavailable) << text_of(ended);
    });
  });
}

// Contract: H-5. All kinds of keys work.
TEST(Tls, KindsOfKeys) {
  const auto client = TlsContext::client({.ca = ca().source()}).value();
  for (const KeyKind kind : {KeyKind::kEd25519, KeyKind::kP256, KeyKind::kRsa}) {
    const auto server = TlsContext::server(server_options(ca().issue({.key = kind}), ca())).value();
    with_handshake(*client, *server, "b",
                   [](Handshake& h) { EXPECT_TRUE(h.client_end.ok()) << text_of(h.client_end); });
  }
}

}  // namespace
}  // namespace rota::net
