#include "ledger/kv_store.h"

#include <algorithm>

#include "ledger/etcd_server_testing.h"
#include "ledger/etcd_store.h"
#include "ledger/fake_store.h"
#include "ledger/kv_conformance.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/tls_testing.h"

namespace rota::ledger::kv {
namespace {

struct FakeHome {
  FakeStore world{};
  std::unique_ptr<Store> open(fiber::Nursery& /*nursery*/) const { return const_cast<FakeStore&>(world).client(); }
  static std::string prefix() { return "t/"; }
};

struct EtcdHome {
  EtcdCluster& cluster = shared_cluster();
  const std::string name = "t" + std::to_string(++counter) + "/";
  std::unique_ptr<Store> open(fiber::Nursery& nursery) const {
    return std::make_unique<EtcdStore>(net::real_network(), cluster.client_options(), nursery);
  }
  [[nodiscard]] std::string prefix() const { return name; }
  static inline int counter = 0;
};

// Contract: L-3. The simulated store and three real servers behave alike.
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, KvConformance, FakeHome);
INSTANTIATE_TYPED_TEST_SUITE_P(Etcd, KvConformance, EtcdHome);

template <class Body>
void with_etcd(EtcdCluster& cluster, const net::GrpcOptions& options, Body&& body) {
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      EtcdStore store(net::real_network(), options, nursery);
      body(store, cluster);
    });
  });
}

// Repeats an idempotent change until a member answers.
void put_eventually(Store& store, const std::string& key, const std::string& value) {
  const auto until = fiber::now() + kSoon;
  for (;;) {
    const Result<TxnResult> result = store.txn({.success = {Put{key, value}}}, kSoon);
    if (result.ok()) return;
    ASSERT_TRUE(is_unknown_outcome(result.code())) << result.error().to_string();
    ASSERT_LT(fiber::now(), until) << result.error().to_string();
  }
}

KeyValue range_eventually(Store& store, const std::string& key) {
  for (const auto until = fiber::now() + kSoon;;) {
    const Result<RangeResult> result = store.range({.range = {key}}, kSoon);
    if (result.ok() && !result->kvs.empty()) return result->kvs.front();
    EXPECT_LT(fiber::now(), until);
    if (fiber::now() >= until) return {};
  }
}

// Another leader is elected soon; the tests that use these tolerate one more than necessary.
const EtcdCluster::Options kQuickElections{.arguments = {"--heartbeat-interval", "50", "--election-timeout", "500"}};

// Contract: L-3. When the member in use is killed, calls and a watch continue at another one, without a gap.
TEST(EtcdStore, AMemberIsKilled) {
  EtcdCluster cluster(kQuickElections);
  with_etcd(cluster, cluster.client_options(1), [](EtcdStore& store, EtcdCluster& servers) {
    put_eventually(store, "k", "1");
    const std::int64_t from = range_eventually(store, "k").mod_revision + 1;
    auto watch = store.watch({"k"}, from, kSoon).value();
    servers.kill(1);
    put_eventually(store, "k", "2");
    put_eventually(store, "k", "3");
    std::string seen;
    while (seen.empty() || seen.back() != '3') {
      const auto events = watch->next(kSoon);
      ASSERT_TRUE(events.ok()) << events.error().to_string();
      for (const Event& event : *events) seen += event.kv.value;
    }
    // A put whose first answer was lost may be there twice.
    EXPECT_EQ(std::string(seen.begin(), std::unique(seen.begin(), seen.end())), "23");
    servers.start(1);
    put_eventually(store, "k", "4");
  });
}

// Contract: L-3. A member that does not answer is left after reply_within; the call reports that its outcome is
// unknown. The silent member may still apply that call when it answers again, after later writes: only a comparison
// keeps it from that.
TEST(EtcdStore, AMemberIsSilent) {
  EtcdCluster cluster(kQuickElections);
  net::GrpcOptions options = cluster.client_options(2);
  with_etcd(cluster, options, [&](EtcdStore& patient, EtcdCluster& servers) {
    put_eventually(patient, "silent", "0");
    const std::int64_t seen = range_eventually(patient, "silent").mod_revision;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      options.reply_within = std::chrono::seconds(1);
      EtcdStore store(net::real_network(), options, nursery);
      servers.pause(2);
      const Txn first{.compares = {compare_number("silent", Compare::Target::kModRevision, seen)},
                      .success = {Put{"silent", "1"}}};
      EXPECT_EQ(store.txn(first, kSoon).code(), ErrorCode::kUnavailable);
      put_eventually(store, "silent", "2");
      servers.resume(2);
    });
    EXPECT_EQ(range_eventually(patient, "silent").value, "2");
  });
}

// Contract: L-3. Reaching etcd's quota is reported as NoSpace; reading and deleting still work.
TEST(EtcdStore, TheQuotaIsUsedUp) {
  EtcdCluster cluster({.nodes = 1, .arguments = {"--quota-backend-bytes", "4194304"}});
  with_etcd(cluster, cluster.client_options(), [](EtcdStore& store, EtcdCluster& /*servers*/) {
    Result<TxnResult> result = ErrorCode::kInternal;
    for (int i = 0; i < 16; ++i) {
      result = store.txn({.success = {Put{"fill" + std::to_string(i), std::string(1 << 20, 'x')}}}, kSoon);
      if (!result.ok()) break;
    }
    ASSERT_EQ(result.code(), ErrorCode::kNoSpace);
    EXPECT_NE(result.error().message.find("alarm disarm"), std::string::npos);
    EXPECT_EQ(must_range(store, {.range = {"fill0"}}).kvs.size(), 1U);
    EXPECT_EQ(must_delete(store, {"fill0"}), 1);
  });
}

// Contract: L-3, H-5. TLS with a certificate of the client; without one the server refuses.
TEST(EtcdStore, Tls) {
  const net::testing::TestCa ca("ca", net::testing::KeyKind::kP256);
  const net::testing::Identity server = ca.issue({.common_name = "etcd", .key = net::testing::KeyKind::kP256});
  const net::testing::Identity client = ca.issue({.common_name = "rota", .key = net::testing::KeyKind::kP256});
  std::string folder = (std::filesystem::temp_directory_path() / "rota-etcd-tls-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder + name) << text;
    return folder + name;
  };
  EtcdCluster cluster({.nodes = 1,
                       .tls = true,
                       .arguments = {"--cert-file", write("/server.pem", server.certificate), "--key-file",
                                     write("/server.key", server.key), "--trusted-ca-file", write("/ca.pem", ca.pem()),
                                     "--client-cert-auth"}});
  const auto attempt = [&](const net::TlsClientOptions& tls) {
    net::TlsNetwork network(net::real_network(), net::TlsContext::client(tls).value());
    fiber::Runtime runtime({.worker_count = 2});
    return runtime.run([&] {
      return fiber::with_scope([&](fiber::Nursery& nursery) -> ErrorCode {
        net::GrpcOptions options = cluster.client_options();
        options.reply_within = tls.certificate.empty() ? std::chrono::seconds(1) : std::chrono::seconds(30);
        EtcdStore store(network, options, nursery);
        return store.txn({.success = {Put{"k", "v"}}}, kSoon).code();
      });
    });
  };
  net::TlsClientOptions tls{.ca = ca.source(), .settings = {.alpn = {"h2"}}};
  tls.certificate.text = client.certificate;
  tls.key.text = client.key;
  EXPECT_EQ(attempt(tls), ErrorCode::kOk);
  tls.certificate = tls.key = {};
  EXPECT_EQ(attempt(tls), ErrorCode::kUnavailable);
  std::filesystem::remove_all(folder);
}

TEST(EtcdStore, Urls) {
  const net::GrpcOptions options = parse_etcd_urls("http://10.0.0.1:2379,http://[::1]:2380").value();
  ASSERT_EQ(options.endpoints.size(), 2U);
  EXPECT_EQ(options.endpoints[1].to_string(), "[::1]:2380");
  EXPECT_FALSE(options.tls);
  EXPECT_TRUE(parse_etcd_urls("https://etcd:2379").value().tls);
  EXPECT_EQ(parse_etcd_urls("https://a:1,http://b:1").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse_etcd_urls("").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse_etcd_urls("http://a:1,").code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace rota::ledger::kv
