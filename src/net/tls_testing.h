// Certificates for tests, made on the spot with OpenSSL.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "net/tls.h"
#include "net/tls_openssl.h"
#include "rota/assert.h"

namespace rota::net::testing {

enum class KeyKind : std::uint8_t { kEd25519, kP256, kRsa };

// A certificate and its key, in PEM form.
struct Identity {
  std::string certificate{};
  std::string key{};
};

struct LeafOptions {
  std::string common_name = "leaf";
  std::string names = "DNS:localhost,DNS:b,IP:127.0.0.1";  // subjectAltName; empty for none.
  std::chrono::seconds valid_from{-3600};                  // From now.
  std::chrono::seconds valid_to{3600};
  KeyKind key = KeyKind::kEd25519;
};

inline std::string pem_of(X509* certificate) {
  const Owned<BIO> out(BIO_new(BIO_s_mem()));
  ROTA_ASSERT(PEM_write_bio_X509(out.get(), certificate) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

inline std::string pem_of(EVP_PKEY* key) {
  const Owned<BIO> out(BIO_new(BIO_s_mem()));
  ROTA_ASSERT(PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

// A certificate authority.
class TestCa {
 public:
  explicit TestCa(const std::string& name, KeyKind kind = KeyKind::kEd25519) : key_(make_key(kind)) {
    certificate_ = make(name, key_.get(), nullptr, {}, "critical,CA:TRUE", LeafOptions{});
  }

  [[nodiscard]] std::string pem() const { return pem_of(certificate_.get()); }
  [[nodiscard]] PemSource source() const { return {.text = pem()}; }

  [[nodiscard]] Identity issue(const LeafOptions& options = {}) const {
    const Owned<EVP_PKEY> key = make_key(options.key);
    const Owned<X509> leaf = make(options.common_name, key.get(), this, options.names, "critical,CA:FALSE", options);
    return {pem_of(leaf.get()), pem_of(key.get())};
  }

 private:
  static Owned<EVP_PKEY> make_key(KeyKind kind) {
    switch (kind) {
      case KeyKind::kEd25519:
        return Owned<EVP_PKEY>(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
      case KeyKind::kP256:
        return Owned<EVP_PKEY>(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
      default:
        return Owned<EVP_PKEY>(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048}));
    }
  }
  static void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    ROTA_ASSERT(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }
  // Signed by `issuer`, or by itself.
  static Owned<X509> make(const std::string& name, EVP_PKEY* key, const TestCa* issuer, const std::string& names,
                          const std::string& constraints, const LeafOptions& options) {
    static long serial = 0;
    Owned<X509> certificate(X509_new());
    X509* x = certificate.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(x), static_cast<long>(options.valid_from.count()));
    X509_gmtime_adj(X509_getm_notAfter(x), static_cast<long>(options.valid_to.count()));
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509* signer = issuer == nullptr ? x : issuer->certificate_.get();
    X509_set_issuer_name(x, X509_get_subject_name(signer));
    add_extension(x, signer, NID_basic_constraints, constraints);
    add_extension(x, signer, NID_subject_key_identifier, "hash");
    add_extension(x, signer, NID_authority_key_identifier, "keyid");
    if (!names.empty()) add_extension(x, signer, NID_subject_alt_name, names);
    EVP_PKEY* signing = issuer == nullptr ? key : issuer->key_.get();
    const EVP_MD* digest = EVP_PKEY_get_id(signing) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
    ROTA_ASSERT(X509_sign(x, signing, digest) > 0);
    return certificate;
  }

  Owned<EVP_PKEY> key_;
  Owned<X509> certificate_;
};

// A server's options for an identity, with the CA's certificate in its chain.
inline TlsServerOptions server_options(const Identity& identity, const TestCa& ca) {
  return {.certificate = {.text = identity.certificate + ca.pem()}, .key = {.text = identity.key}};
}

}  // namespace rota::net::testing
