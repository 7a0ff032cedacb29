// Certificates, keys and rules of TLS: reading them, checking them, and replacing them while connections run.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/json_text.h"
#include "base/os_error.h"
#include "net/tls_openssl.h"

namespace rota::net {

namespace {

constexpr std::size_t kLargestPem = 4 << 20;
// For TLS 1.2; the ciphers of 1.3 are all good. Forward secrecy and authenticated encryption only.
constexpr const char* kCiphers12 = "ECDHE+AESGCM:ECDHE+CHACHA20";

std::string named(const PemSource& source, std::string_view what) {
  return source.path.empty() ? std::string(what) : std::string(what) + " '" + printable(source.path) + "'";
}

int number_of(TlsVersion version) { return version == TlsVersion::k13 ? TLS1_3_VERSION : TLS1_2_VERSION; }

Error invalid(const std::string& sentence) { return Error{ErrorCode::kInvalidArgument, sentence}; }

Result<std::string> read_pem(const PemSource& source, std::string_view what) {
  if (source.path.empty()) return source.text;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(source.path.c_str(), "re"), std::fclose);
  if (file == nullptr) return os_error(errno, "read " + named(source, what));
  std::string text;
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kLargestPem) return Error{ErrorCode::kTooLarge, named(source, what) + " is larger than 4 MiB"};
  }
  if (std::ferror(file.get()) != 0) return os_error(errno, "read " + named(source, what));
  return text;
}

int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

Result<Owned<EVP_PKEY>> read_key(const PemSource& source) {
  constexpr std::string_view kWhat = "the private key";
  ROTA_TRY_ASSIGN(std::string text, read_pem(source, kWhat));
  ERR_clear_error();
  const Owned<BIO> in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr));
  OPENSSL_cleanse(text.data(), text.size());
  const OpensslError error = take_errors();
  if (key == nullptr) {
    return invalid(named(source, kWhat) + " holds no private key in PEM form without a passphrase (" + error.text +
                   ")");
  }
  return key;
}

// Gives the context a certificate with its chain and key. REQUIRES: neither source is empty.
Result<void> use_certificate(SSL_CTX* context, const PemSource& certificate, const PemSource& key) {
  constexpr std::string_view kWhat = "the certificate";
  ROTA_TRY_ASSIGN(const std::vector<Owned<X509>> chain, read_certificates(certificate, kWhat));
  ROTA_TRY_ASSIGN(const Owned<EVP_PKEY> private_key, read_key(key));
  ERR_clear_error();
  bool good = SSL_CTX_use_certificate(context, chain.front().get()) == 1;
  for (std::size_t i = 1; good && i < chain.size(); ++i) good = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  if (const OpensslError error = take_errors(); !good) {
    return invalid(named(certificate, kWhat) + " cannot be used: " + error.text);
  }
  good = SSL_CTX_use_PrivateKey(context, private_key.get()) == 1 && SSL_CTX_check_private_key(context) == 1;
  if (const OpensslError error = take_errors(); !good) {
    return invalid(named(key, "the private key") + " does not belong to " + named(certificate, kWhat) + " (" +
                   error.text + ")");
  }
  return {};
}

// Makes the certificates of the source the anchors of trust.
Result<void> trust(SSL_CTX* context, const PemSource& source, bool is_server) {
  ROTA_TRY_ASSIGN(const std::vector<Owned<X509>> anchors, read_certificates(source, "the CA certificates"));
  ERR_clear_error();
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  bool good = true;
  for (const Owned<X509>& anchor : anchors) {
    good = good && X509_STORE_add_cert(store, anchor.get()) == 1;
    if (is_server) good = good && SSL_CTX_add_client_CA(context, anchor.get()) == 1;
  }
  if (const OpensslError error = take_errors(); !good) {
    return invalid(named(source, "the CA certificates") + " cannot be used: " + error.text);
  }
  return {};
}

// The server's choice: its first protocol that the client offers.
int choose_protocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned int offered_size, void* argument) {
  const auto& own = *static_cast<const std::string*>(argument);
  unsigned char* found = nullptr;
  const int outcome = SSL_select_next_proto(&found, chosen_size, reinterpret_cast<const unsigned char*>(own.data()),
                                            static_cast<unsigned int>(own.size()), offered, offered_size);
  *chosen = found;
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Result<std::string> alpn_wire(const std::vector<std::string>& protocols) {
  std::string wire;
  for (const std::string& protocol : protocols) {
    if (protocol.empty() || protocol.size() > 255) {
      return invalid("the ALPN protocol '" + printable(protocol) + "' must have 1 to 255 bytes");
    }
    wire += static_cast<char>(static_cast<unsigned char>(protocol.size()));
    wire += protocol;
  }
  return wire;
}

Result<Sha256> parse_sha256(std::string_view text) {
  Sha256 hash{};
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  bool good = text.size() == 2 * hash.size();
  for (std::size_t i = 0; good && i < hash.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    hash[i] = static_cast<unsigned char>(high * 16 + low);
  }
  if (!good) return invalid("'" + printable(text) + "' is not a SHA-256: 64 hexadecimal digits are needed");
  return hash;
}

}  // namespace

Sha256 sha256_of(const X509* certificate) {
  Sha256 hash{};
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha256(), hash.data(), &size) != 1) hash.fill(0);
  return hash;
}

std::string hex_of(const Sha256& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : hash) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<std::vector<Owned<X509>>> read_certificates(const PemSource& source, std::string_view what) {
  ROTA_TRY_ASSIGN(const std::string text, read_pem(source, what));
  ERR_clear_error();
  const Owned<BIO> in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::vector<Owned<X509>> certificates;
  while (X509* certificate = PEM_read_bio_X509(in.get(), nullptr, no_passphrase, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const OpensslError error = take_errors();
  const bool at_end = ERR_GET_LIB(error.code) == ERR_LIB_PEM && ERR_GET_REASON(error.code) == PEM_R_NO_START_LINE;
  if (!at_end) return invalid(named(source, what) + " holds something that is not a certificate (" + error.text + ")");
  if (certificates.empty()) {
    return invalid(named(source, what) + " holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
  }
  return certificates;
}

Result<std::string> certificate_sha256(const PemSource& certificate) {
  ROTA_TRY_ASSIGN(const std::vector<Owned<X509>> certificates, read_certificates(certificate, "the certificate"));
  return hex_of(sha256_of(certificates.front().get()));
}

TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext::Loaded>> TlsContext::load(const std::shared_ptr<const Config>& config) {
  auto loaded = std::make_shared<Loaded>();
  loaded->config = config;
  ERR_clear_error();
  loaded->context.reset(SSL_CTX_new(config->is_server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* context = loaded->context.get();
  if (context == nullptr) {
    return Error{ErrorCode::kResourceExhausted, "make a TLS context: " + take_errors().text};
  }
  const TlsSettings& settings = config->settings;
  SSL_CTX_set_min_proto_version(context, number_of(settings.min_version));
  SSL_CTX_set_max_proto_version(context, number_of(settings.max_version));
  SSL_CTX_set_cipher_list(context, kCiphers12);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
  // Connections live long, so resumption saves little. Without tickets, no unread bytes wait at a client that only
  // writes; TCP would reset the connection when it closes.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_cert_verify_callback(context, verify_certificate, const_cast<Config*>(config.get()));
  if (!config->trusted.empty()) ROTA_TRY(trust(context, config->trusted, config->is_server));
  const bool verifies = !config->is_server || !config->trusted.empty();
  SSL_CTX_set_verify(context, verifies ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, nullptr);
  if (!config->certificate.empty()) ROTA_TRY(use_certificate(context, config->certificate, config->key));
  const std::string& wire = config->alpn_wire;
  if (config->is_server && !wire.empty()) {
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, const_cast<std::string*>(&wire));
  } else if (!wire.empty()) {
    SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(wire.data()),
                            static_cast<unsigned int>(wire.size()));
  }
  return loaded;
}

Result<std::shared_ptr<TlsContext>> TlsContext::make(std::shared_ptr<const Config> config) {
  if (config->certificate.empty() != config->key.empty()) {
    return invalid("a certificate needs its private key, and a private key its certificate: one of them is missing");
  }
  if (config->settings.min_version > config->settings.max_version) {
    return invalid("the lowest TLS version that is allowed is above the highest");
  }
  std::shared_ptr<TlsContext> context(new TlsContext(std::move(config)));
  ROTA_TRY(context->reload());
  return context;
}

Result<std::shared_ptr<TlsContext>> TlsContext::client(TlsClientOptions options) {
  auto config = std::make_shared<Config>();
  if (options.ca.empty() == options.ca_sha256.empty()) {
    return invalid("a TLS client needs either the certificates of trusted CAs, or the SHA-256 of one CA");
  }
  config->trusted = std::move(options.ca);
  if (!options.ca_sha256.empty()) {
    config->pinned = true;
    ROTA_TRY_ASSIGN(config->pin, parse_sha256(options.ca_sha256));
  }
  config->certificate = std::move(options.certificate);
  config->key = std::move(options.key);
  config->server_name = std::move(options.server_name);
  config->settings = std::move(options.settings);
  ROTA_TRY_ASSIGN(config->alpn_wire, alpn_wire(config->settings.alpn));
  return make(std::move(config));
}

Result<std::shared_ptr<TlsContext>> TlsContext::server(TlsServerOptions options) {
  auto config = std::make_shared<Config>();
  if (options.certificate.empty()) return invalid("a TLS server needs a certificate and its private key");
  config->is_server = true;
  config->trusted = std::move(options.client_ca);
  config->certificate = std::move(options.certificate);
  config->key = std::move(options.key);
  config->settings = std::move(options.settings);
  ROTA_TRY_ASSIGN(config->alpn_wire, alpn_wire(config->settings.alpn));
  return make(std::move(config));
}

Result<void> TlsContext::reload() {
  ROTA_TRY_ASSIGN(std::shared_ptr<Loaded> loaded, load(config_));
  const sync::MutexLock lock(mutex_);
  loaded_.swap(loaded);
  return {};
}

std::shared_ptr<TlsContext::Loaded> TlsContext::current() const {
  const sync::MutexLock lock(mutex_);
  return loaded_;
}

}  // namespace rota::net
