// HttpDoor: the HTTP interface of a host: address, certificates, tokens, server. `rota host --http` opens one.
//
//   auto door = HttpDoor::open(host, ledger, net::real_network(), {.address = "127.0.0.1:7070", .state = dir});
//   nursery.launch([&] { (*door)->run(); });  ...  (*door)->close();
//
// Security is on by default (H-5): every route but the probes needs a token, also on loopback; an address that is not
// of loopback is refused without TLS. Tokens are in `<state>/tokens`. If that file does not exist, a token with the
// role admin is made and written to `<state>/admin.token`, for the user who runs the host (mode 0600).
//
// Thread safety: run() once; everything else from any task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/host.h"
#include "host/http_api.h"
#include "host/http_routes.h"
#include "host/http_tokens.h"
#include "host/log_tail.h"
#include "host/worker_access.h"
#include "ledger/ledger.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "net/tls.h"
#include "rota/result.h"

namespace rota::host {

inline constexpr std::string_view kTokensFile = "tokens";           // In the state folder.
inline constexpr std::string_view kAdminTokenFile = "admin.token";  // Likewise.

struct HttpDoorOptions {
  std::string address{};      // "127.0.0.1:7070"; port 0: a free one.
  std::string certificate{};  // PEM files; both or neither. Neither: those of `rota host init`, if it was called.
  std::string key{};
  std::vector<std::string> hosts{};  // More names under which clients reach this host.
  std::string state{};               // The state folder.
  std::string density{};             // The file of H-3; empty: it is not written.
  std::string metrics{};             // A file with the metrics as JSON (H-2), written from time to time; empty: none.
  std::string user = "admin";        // Of the token that is made at the first start.
  net::HttpLimits limits{};
  std::function<std::int64_t()> wall_ns{};  // Empty: the system's clock.
  WorkerGrants grants{};
  std::string secrets{};  // The folder of the secrets that workers may ask for (base/secret_file.h); empty: none.
  std::string files{};    // The folder of the store of files (U-6); empty: this host has none.
  std::uint64_t files_bytes = 0;  // The most that it may have; 0: no bound but that of the disk.
};

// The address, if it may be listened on with these options. InvalidArgument; FailedPrecondition for an address beyond
// loopback without TLS.
[[nodiscard]] Result<net::Endpoint> check_http_address(const HttpDoorOptions& options);

// `rota host init` has made a certificate in this state folder: the door then speaks TLS.
[[nodiscard]] bool has_certificate(const std::string& state);

class HttpDoor {
 public:
  // Listens. REQUIRES: the host has a follower; host, ledger and network outlive it.
  static Result<std::unique_ptr<HttpDoor>> open(Host& host, ledger::Ledger& ledger, net::Network& network,
                                                HttpDoorOptions options);
  // Serves until close() or until the task is cancelled.
  void run();
  void close() { listener_->close(); }

  // From now on a submission is answered with 503, and /readyz says so.
  void refuse_submissions() { services_.refusing.store(true); }
  // Reads the certificate again, for new connections.
  Result<void> reload();

  [[nodiscard]] net::Endpoint endpoint() const { return listener_->endpoint(); }
  [[nodiscard]] bool is_encrypted() const { return context_ != nullptr; }

 private:
  HttpDoor(Host& host, ledger::Ledger& ledger, const HttpDoorOptions& options, std::vector<std::string> hosts);
  // From time to time: renews the certificate, and removes identities that have expired.
  void keep_tidy();
  void keep_metrics();
  void write_metrics();
  void tidy();

  const std::string state_;
  const std::string metrics_;
  bool own_certificate_ = false;  // Of `rota host init`.
  Tokens tokens_;
  FailedAttempts failures_;
  LogTail tail_;
  HttpServices services_;
  HttpApi api_;
  std::shared_ptr<net::TlsContext> context_;
  std::unique_ptr<net::TlsNetwork> tls_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace rota::host
