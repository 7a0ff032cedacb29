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
  std::string certificate{};  // PEM files; both or neither.
  std::string key{};
  std::vector<std::string> hosts{};  // More names under which clients reach this host.
  std::string state{};               // The state folder.
  std::string user = "admin";        // Of the token that is made at the first start.
  net::HttpLimits limits{};
  std::function<std::int64_t()> wall_ns{};  // Empty: the system's clock.
};

// The address, if it may be listened on with these options. InvalidArgument; FailedPrecondition for an address beyond
// loopback without TLS.
[[nodiscard]] Result<net::Endpoint> check_http_address(const HttpDoorOptions& options);

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
