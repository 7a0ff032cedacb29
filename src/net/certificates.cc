#include "net/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>

#include "net/tls_openssl.h"

namespace rota::net {

namespace {

constexpr long kEarlier = 3600;

Error failed(std::string_view what) {
  return Error{ErrorCode::kInternal, "make a certificate: " + std::string(what) + ": " + take_errors().text};
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

// No character with a meaning in the configuration syntax of OpenSSL.
bool is_host_name(const std::string& name) {
  return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// What a certificate says beside its key.
struct Content {
  std::string common_name{};
  std::string constraints{};
  std::string usage{};
  std::string alternative_names{};
  std::int64_t now_s = 0;
  std::chrono::seconds valid{};
};

// Signed with `issuer_key`; by itself if `issuer` is null.
Result<CertificateAndKey> make(const Content& content, X509* issuer, EVP_PKEY* issuer_key) {
  ERR_clear_error();
  const Owned<EVP_PKEY> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const Owned<X509> certificate(X509_new());
  X509* x = certificate.get();
  if (key == nullptr || x == nullptr) return failed("the key");
  std::array<unsigned char, 16> serial{};
  if (RAND_bytes(serial.data(), static_cast<int>(serial.size())) != 1) return failed("random bytes");
  serial[0] &= 0x7f;  // Positive.
  BIGNUM* number = BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr);
  const bool numbered = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != nullptr;
  BN_free(number);
  std::time_t now = content.now_s;
  X509* signer = issuer == nullptr ? x : issuer;
  const bool made =
      numbered && X509_set_version(x, 2) == 1 && X509_time_adj(X509_getm_notBefore(x), -kEarlier, &now) != nullptr &&
      X509_time_adj_ex(X509_getm_notAfter(x), static_cast<int>(content.valid.count() / 86400),
                       static_cast<long>(content.valid.count() % 86400), &now) != nullptr &&
      X509_set_pubkey(x, key.get()) == 1 &&
      X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(content.common_name.c_str()), -1, -1, 0) == 1 &&
      X509_set_issuer_name(x, X509_get_subject_name(signer)) == 1 &&
      add_extension(x, signer, NID_basic_constraints, content.constraints) &&
      add_extension(x, signer, NID_key_usage, content.usage) &&
      add_extension(x, signer, NID_subject_key_identifier, "hash") &&
      add_extension(x, signer, NID_authority_key_identifier, "keyid") &&
      (content.alternative_names.empty() ||
       (add_extension(x, signer, NID_subject_alt_name, content.alternative_names) &&
        add_extension(x, signer, NID_ext_key_usage, "serverAuth"))) &&
      X509_sign(x, issuer == nullptr ? key.get() : issuer_key, EVP_sha256()) > 0;
  if (!made) return failed("the content");
  const Owned<BIO> certificate_text(BIO_new(BIO_s_mem()));
  const Owned<BIO> key_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_text.get(), x) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return failed("the text");
  }
  return CertificateAndKey{text_of(certificate_text.get()), text_of(key_text.get())};
}

}  // namespace

Result<CertificateAndKey> make_ca(const std::string& name, std::int64_t now_s, std::chrono::seconds valid) {
  return make({.common_name = name,
               .constraints = "critical,CA:TRUE,pathlen:0",
               .usage = "critical,keyCertSign,cRLSign",
               .now_s = now_s,
               .valid = valid},
              nullptr, nullptr);
}

Result<CertificateAndKey> issue_certificate(const CertificateAndKey& ca, const CertificateRequest& request) {
  Content content{.constraints = "critical,CA:FALSE",
                  .usage = "critical,digitalSignature",
                  .now_s = request.now_s,
                  .valid = request.valid};
  for (const std::string& name : request.names) {
    if (!is_address(name) && !is_host_name(name)) {
      return Error{ErrorCode::kInvalidArgument, "'" + name + "' is neither a host name nor a numeric address"};
    }
    content.alternative_names +=
        (content.alternative_names.empty() ? "" : ",") + std::string(is_address(name) ? "IP:" : "DNS:") + name;
  }
  if (request.names.empty()) return Error{ErrorCode::kInvalidArgument, "a certificate needs at least one name"};
  content.common_name = request.names.front().substr(0, 64);
  ROTA_TRY_ASSIGN(const std::vector<Owned<X509>> issuer, read_certificates({.text = ca.certificate}, "the CA"));
  ERR_clear_error();
  const Owned<BIO> bio(BIO_new_mem_buf(ca.key.data(), static_cast<int>(ca.key.size())));
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return Error{ErrorCode::kCorrupt, "the key of the CA cannot be read: " + take_errors().text};
  return make(content, issuer.front().get(), key.get());
}

Result<CertificateFacts> certificate_facts(const PemSource& certificate) {
  ROTA_TRY_ASSIGN(const std::vector<Owned<X509>> all, read_certificates(certificate, "the certificate"));
  X509* x = all.front().get();
  CertificateFacts facts;
  std::tm parts{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &parts) != 1) {
    return Error{ErrorCode::kCorrupt, "the certificate has no valid date"};
  }
  facts.expires_s = ::timegm(&parts);
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) {
      const ASN1_IA5STRING* text = name->d.dNSName;
      facts.names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                               static_cast<std::size_t>(ASN1_STRING_length(text)));
    } else if (name->type == GEN_IPADD) {
      std::array<char, INET6_ADDRSTRLEN> text{};
      const int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
      ::inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), text.data(), text.size());
      facts.names.emplace_back(text.data());
    }
  }
  GENERAL_NAMES_free(names);
  return facts;
}

}  // namespace rota::net
