#include "net/certificates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <string>

#include "net/sim_network.h"
#include "net/tls.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kNow = 1'800'000'000;

struct Made {
  CertificateAndKey ca = make_ca("rota test", kNow, 24h * 3650).value();
  CertificateAndKey host =
      issue_certificate(ca, {.names = {"b", "rota.example", "10.0.0.7", "::1"}, .now_s = kNow, .valid = 24h * 90})
          .value();
};

// Connects from "a" to "b", whose server has the certificate, with a client that has `options`, at `now`.
Result<void> connect(const Made& made, TlsClientOptions options, std::int64_t now = kNow) {
  SimNetwork sim{SimNetworkOptions{}};
  fiber::Runtime runtime({.worker_count = 1, .deterministic_seed = 3});
  Result<void> outcome;
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      const auto server = TlsContext::server({.certificate = {.text = made.host.certificate + made.ca.certificate},
                                              .key = {.text = made.host.key}})
                              .value();
      options.settings.wall_clock = [now] { return std::time_t{now}; };
      const auto client = TlsContext::client(std::move(options)).value();
      TlsNetwork there(sim.node("b"), nullptr, server);
      TlsNetwork here(sim.node("a"), client);
      const auto listener = there.listen({.host = "b", .port = 1}).value();
      fiber::Task<void> serving = nursery.spawn([&] {
        const auto stream = listener->accept({});
        std::array<char, 1> byte{};
        if (stream.ok()) (void)(*stream)->read_some(byte, 10s);
      });
      const auto stream = here.connect({.host = "b", .port = 1}, 10s);
      if (!stream.ok()) outcome = stream.error();
      if (stream.ok()) (*stream)->close();
      serving.wait();
    });
  });
  return outcome;
}

// H-5: what `rota host init` makes is accepted by clients that know the CA, by its file or by its hash, and by no
// others.
TEST(Certificates, ClientsTrustTheCaAlone) {
  const Made made;
  EXPECT_TRUE(connect(made, {.ca = {.text = made.ca.certificate}}).ok());
  const std::string pin = certificate_sha256({.text = made.ca.certificate}).value();
  EXPECT_TRUE(connect(made, {.ca_sha256 = pin}).ok());
  const Made other;
  EXPECT_EQ(connect(made, {.ca = {.text = other.ca.certificate}}).code(), ErrorCode::kUnauthenticated);
  EXPECT_EQ(connect(made, {.ca_sha256 = certificate_sha256({.text = other.ca.certificate}).value()}).code(),
            ErrorCode::kUnauthenticated);
  EXPECT_EQ(connect(made, {.ca = {.text = made.ca.certificate}, .server_name = "evil.example"}).code(),
            ErrorCode::kUnauthenticated);
  EXPECT_TRUE(connect(made, {.ca = {.text = made.ca.certificate}, .server_name = "10.0.0.7"}).ok());
  // Rotation: a client that trusts both CAs is served by either.
  EXPECT_TRUE(connect(made, {.ca = {.text = other.ca.certificate + made.ca.certificate}}).ok());
}

TEST(Certificates, HaveAnEnd) {
  const Made made;
  EXPECT_EQ(connect(made, {.ca = {.text = made.ca.certificate}}, kNow + 91 * 86400).code(),
            ErrorCode::kUnauthenticated);
  EXPECT_TRUE(connect(made, {.ca = {.text = made.ca.certificate}}, kNow - 1800).ok());  // A clock that is behind.
  const CertificateFacts facts = certificate_facts({.text = made.host.certificate}).value();
  EXPECT_EQ(facts.expires_s, kNow + 90 * 86400);
  EXPECT_EQ(facts.names, (std::vector<std::string>{"b", "rota.example", "10.0.0.7", "::1"}));
}

TEST(Certificates, RefuseWhatIsNotAName) {
  const Made made;
  for (const char* name : {"", "a b", "a,DNS:evil.example", "a\nb", "*", "a/b"}) {
    EXPECT_EQ(issue_certificate(made.ca, {.names = {name}, .now_s = kNow, .valid = 1h}).code(),
              ErrorCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(issue_certificate(made.ca, {.names = {}, .now_s = kNow, .valid = 1h}).code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(issue_certificate({made.ca.certificate, "no key"}, {.names = {"b"}, .now_s = kNow, .valid = 1h}).ok());
}

}  // namespace
}  // namespace rota::net
