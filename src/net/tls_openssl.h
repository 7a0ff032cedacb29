// OpenSSL's objects with owners, and its errors as sentences. Used by the tls*.cc files only.
//
// OpenSSL keeps its error queue per thread, and tasks move between threads. So every call that may fail is made between
// ERR_clear_error() and take_errors(), without a wait in between.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls.h"
#include "rota/result.h"

namespace rota::net {

struct OpensslDelete {
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, OpensslDelete>;

using Sha256 = std::array<unsigned char, 32>;

// What a context was made from. It never changes.
struct TlsContext::Config {
  bool is_server = false;
  PemSource trusted{};  // CAs for the peer.
  PemSource certificate{};
  PemSource key{};
  std::string server_name{};
  TlsSettings settings{};
  bool pinned = false;
  Sha256 pin{};
  std::string alpn_wire{};  // Each protocol with its length before it.
};

// What was read from the files, and is replaced by reload().
struct TlsContext::Loaded {
  Owned<SSL_CTX> context{};
  std::shared_ptr<const Config> config{};
};

// Why a certificate was refused; filled in by the verification callback.
struct TlsRefusal {
  long code = 0;  // X509_V_ERR_...; 0 if it was not refused.
  std::string subject{};
  std::string issuer{};
  std::string names{};  // For which the certificate is valid.
  std::string not_before{};
  std::string not_after{};
};

// The verification callback of every context. The refusal goes to the TlsRefusal* in the SSL's app data.
int verify_certificate(X509_STORE_CTX* store, void* config);

// The first error in the queue, whose sentence is the concatenation of all of them. Empties the queue.
struct OpensslError {
  unsigned long code = 0;
  std::string text{};
};
OpensslError take_errors();

// The refusal of the peer's certificate. `expected_name` is empty for a server.
Error refusal_error(std::string_view operation, const TlsRefusal& refusal, std::string_view expected_name);
// Any other failure of TLS.
Error tls_error(std::string_view operation, const OpensslError& error, TlsVersion min_version);
Error truncated_error(std::string_view operation);

std::string common_name(const X509_NAME* name);
Sha256 sha256_of(const X509* certificate);
std::string hex_of(const Sha256& hash);

// All certificates of the source; at least one. `what` names the source in messages: "the CA certificates".
Result<std::vector<Owned<X509>>> read_certificates(const PemSource& source, std::string_view what);

}  // namespace rota::net
