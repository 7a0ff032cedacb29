// TLS over any ByteStream: TlsContext holds certificates and rules, TlsStream encrypts one connection, TlsNetwork makes
// every connection of another network a TLS connection.
//
//   auto context = TlsContext::client({.ca = {.path = "ca.pem"}}).value();
//   TlsNetwork network(real_network(), context);
//   auto stream = network.connect({.host = "redis.example", .port = 6379}, 5s);    // handshake included
//
// Rules. TLS 1.3, or 1.2 if allowed. A client always checks the server's certificate: its chain against the CA bundle,
// or against one CA known by its SHA-256; its dates; and its name. A server checks the client's certificate if it has a
// CA for clients, and then refuses clients without one. With TLS 1.3 a client learns of that refusal by its first read.
//
// Errors, beside those of stream.h. The sentence says which check failed and what to do.
//   Unauthenticated  a certificate was refused, by this end or by the peer. The detail "tls" is one of: expired,
//                    not_yet_valid, wrong_name, unknown_ca, wrong_pin, bad_certificate, refused_by_peer.
//   Unsupported      the two ends have no version or protocol (ALPN) in common, or the peer does not speak TLS.
//   Timeout          the handshake took longer than handshake_limit.
//   Corrupt          the peer sent bytes that are not valid TLS.
//   Closed           also: the stream ended without a close_notify (detail "tls" = "truncated"), so that somebody who
//   can
//                    cut the connection cannot make a half message look complete.
//
// In a simulation, use Ed25519 keys: ECDSA signatures differ in length from run to run, and so would the segments. The
// bytes themselves are random; the times are exact.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "net/stream.h"

struct x509_store_ctx_st;  // OpenSSL's.

namespace rota::net {

enum class TlsVersion : std::uint8_t { k12, k13 };

// Certificates or a key in PEM form: the path of a file, or the text itself.
struct PemSource {
  std::string path{};
  std::string text{};  // If `path` is empty.
  [[nodiscard]] bool empty() const { return path.empty() && text.empty(); }
};

struct TlsSettings {
  TlsVersion min_version = TlsVersion::k13;
  TlsVersion max_version = TlsVersion::k13;
  // Protocols by preference ("h2"). A server chooses the first of its own that the client offers, and refuses a client
  // that offers only others.
  std::vector<std::string> alpn{};
  std::chrono::nanoseconds handshake_limit = std::chrono::seconds(5);
  // New keys after this number of records (TLS 1.3). AES-GCM must not encrypt more than 2^24.5 records with one key.
  std::uint64_t rekey_after_records = std::uint64_t{1} << 22;
  // The time by which certificates are checked; the system's clock if empty.
  std::function<std::time_t()> wall_clock{};
};

// One of `ca` and `ca_sha256` is given.
struct TlsClientOptions {
  PemSource ca{};           // The CAs that are trusted.
  std::string ca_sha256{};  // 64 hexadecimal digits: the SHA-256 of the CA's certificate (DER), as certificate_sha256()
                            // prints it. The server must send the CA's certificate in its chain.
  PemSource certificate{};  // Of this client, with intermediate ones; may be empty.
  PemSource key{};
  std::string server_name{};  // In place of the endpoint's host: a name or a numeric address.
  TlsSettings settings{};
};

struct TlsServerOptions {
  PemSource certificate{};  // Of this server, followed by its chain; with the CA if clients pin it.
  PemSource key{};
  PemSource client_ca{};  // If given, clients must present a certificate signed by one of these CAs.
  TlsSettings settings{};
};

// Certificates, keys and rules. Shared by all connections that use them.
//
// Thread safety: all functions from any thread.
class TlsContext {
 public:
  // InvalidArgument, NotFound... with a sentence that names the file and what is wrong with it.
  static Result<std::shared_ptr<TlsContext>> client(TlsClientOptions options);
  static Result<std::shared_ptr<TlsContext>> server(TlsServerOptions options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads all files again, for the connections that begin from now on; existing ones continue. If anything is wrong,
  // returns the error and keeps what was there.
  Result<void> reload();

 private:
  friend class TlsStream;
  friend class TlsNetwork;
  friend int verify_certificate(x509_store_ctx_st* store, void* config);
  struct Loaded;
  struct Config;
  explicit TlsContext(std::shared_ptr<const Config> config) : config_(std::move(config)) {}
  static Result<std::shared_ptr<TlsContext>> make(std::shared_ptr<const Config> config);
  static Result<std::shared_ptr<Loaded>> load(const std::shared_ptr<const Config>& config);
  [[nodiscard]] std::shared_ptr<Loaded> current() const;

  const std::shared_ptr<const Config> config_;
  mutable sync::Mutex mutex_;
  std::shared_ptr<Loaded> loaded_ ROTA_GUARDED_BY(mutex_){};
};

// The SHA-256 of the first certificate in the source, in lower-case hexadecimal digits.
Result<std::string> certificate_sha256(const PemSource& certificate);

// Who the peer is, after the handshake.
struct TlsPeer {
  std::string version{};             // "TLSv1.3".
  std::string alpn{};                // The protocol that was agreed upon; may be empty.
  std::string certificate_name{};    // The common name of the peer's certificate; empty if it presented none.
  std::string certificate_sha256{};  // Likewise.
};

// Thread safety: as ByteStream says.
class TlsStream final : public ByteStream {
 public:
  // A client's end. `server_name` is checked against the certificate. The handshake happens in handshake(), or in the
  // first operation.
  static Result<std::unique_ptr<TlsStream>> client(std::unique_ptr<ByteStream> inner, const TlsContext& context,
                                                   const std::string& server_name);
  static Result<std::unique_ptr<TlsStream>> server(std::unique_ptr<ByteStream> inner, const TlsContext& context);
  ~TlsStream() override;

  // Idempotent. Ends after handshake_limit, counted from the construction, at the latest.
  Result<void> handshake(Deadline deadline);
  // Empty before the handshake is complete.
  [[nodiscard]] TlsPeer tls_peer() const;

  Result<std::size_t> read_some(std::span<char> buffer, Deadline deadline) override;
  Result<void> write_all(std::string_view bytes, Deadline deadline) override;
  // Sends close_notify, so that the peer can tell this end from an interruption, and ends the inner stream.
  Result<void> shutdown_write(Deadline deadline) override;
  // Without a shutdown_write() before it, the peer sees an interruption.
  void close() override;
  [[nodiscard]] std::string peer() const override;

 private:
  struct Engine;
  explicit TlsStream(std::unique_ptr<Engine> engine);
  static Result<std::unique_ptr<TlsStream>> make(std::unique_ptr<ByteStream> inner, const TlsContext& context,
                                                 const std::string* server_name);
  const std::unique_ptr<Engine> engine_;
};

// Every connection of `inner` as a TLS connection. connect() includes the handshake. accept() does not, so that a slow
// client holds up nobody else: the stream's first operation, or TlsStream::handshake(), does it.
//
// A null context means that connect(), or listen(), is refused. `inner` must outlive this object.
class TlsNetwork final : public Network {
 public:
  TlsNetwork(Network& inner, std::shared_ptr<TlsContext> client, std::shared_ptr<TlsContext> server = nullptr)
      : inner_(inner), client_(std::move(client)), server_(std::move(server)) {}
  Result<std::unique_ptr<ByteStream>> connect(const Endpoint& endpoint, Deadline deadline) override;
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override;

 private:
  Network& inner_;
  const std::shared_ptr<TlsContext> client_;
  const std::shared_ptr<TlsContext> server_;
};

}  // namespace rota::net
