#include "cli/etcd_access.h"

#include <cstdlib>
#include <utility>

namespace rota::cli {

namespace {

constexpr std::string_view kTrustedCas = "/etc/ssl/certs/ca-certificates.crt";

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment.
  return value == nullptr || *value == '\0' ? otherwise : value;
}

}  // namespace

EtcdAccess EtcdAccess::from_environment(std::string urls) {
  return {.urls = std::move(urls),
          .prefix = variable("ROTA_ETCD_PREFIX", "rota/"),
          .ca = variable("ROTA_ETCD_CA"),
          .certificate = variable("ROTA_ETCD_CERT"),
          .key = variable("ROTA_ETCD_KEY")};
}

Result<void> EtcdAccess::check() const {
  ROTA_TRY_ASSIGN(const net::GrpcOptions options, ledger::kv::parse_etcd_urls(urls));
  if (prefix.empty() || prefix.back() != '/') {
    return Error{ErrorCode::kInvalidArgument, "the prefix of the keys in etcd must end with '/', as in 'rota/'"};
  }
  if (certificate.empty() != key.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--etcd-cert and --etcd-key are given together, or not at all"};
  }
  if (!options.tls && (!ca.empty() || !certificate.empty())) {
    return Error{ErrorCode::kInvalidArgument, "--etcd-ca, --etcd-cert and --etcd-key need etcd servers at https://"};
  }
  return {};
}

Result<std::unique_ptr<EtcdConnection>> EtcdConnection::open(const EtcdAccess& access, fiber::Nursery& nursery) {
  ROTA_TRY(access.check());
  ROTA_TRY_ASSIGN(net::GrpcOptions options, ledger::kv::parse_etcd_urls(access.urls));
  auto connection = std::make_unique<EtcdConnection>();
  net::Network* network = &net::real_network();
  if (options.tls) {
    net::TlsClientOptions tls;
    tls.ca.path = access.ca.empty() ? std::string(kTrustedCas) : access.ca;
    tls.certificate.path = access.certificate;
    tls.key.path = access.key;
    tls.settings.alpn = {"h2"};
    ROTA_TRY_ASSIGN(connection->tls_, net::TlsContext::client(std::move(tls)));
    connection->network_ = std::make_unique<net::TlsNetwork>(*network, connection->tls_);
    network = connection->network_.get();
  }
  connection->store_ = std::make_unique<ledger::kv::EtcdStore>(*network, std::move(options), nursery);
  return connection;
}

}  // namespace rota::cli
