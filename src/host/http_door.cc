#include "host/http_door.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/json_text.h"
#include "base/os_error.h"
#include "host/follower.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"

namespace rota::host {

namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || (host.starts_with("127.") && fiber::Address::ip(host, 0).ok());
}
bool is_wildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// The names that a client may use in its Host field. None: any, because an address of every interface has no name.
std::vector<std::string> names_of(const net::Endpoint& endpoint, const std::vector<std::string>& more) {
  std::vector<std::string> names;
  for (const std::string& name : more) names.push_back(lower_case(name));
  if (is_wildcard(endpoint.host) && names.empty()) return names;
  names.push_back(lower_case(endpoint.host));
  if (is_loopback(endpoint.host) || is_wildcard(endpoint.host)) {
    names.insert(names.end(), {"localhost", "127.0.0.1", "::1"});
  }
  return names;
}

// Writes the secret for the user who runs the host, and for nobody else.
Result<void> write_secret(const std::string& path, const std::string& token) {
  (void)::unlink(path.c_str());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return os_error(errno, "create '" + path + "'");
  const std::string text = token + "\n";
  const ssize_t written = ::write(fd, text.data(), text.size());
  const int error = errno;
  const bool closed = ::close(fd) == 0;
  if (written != static_cast<ssize_t>(text.size()) || !closed) return os_error(error, "write '" + path + "'");
  return {};
}

Result<void> prepare_tokens(const HttpDoorOptions& options) {
  const std::string path = options.state + "/" + std::string(kTokensFile);
  const Result<std::vector<Credential>> known = read_tokens(path);
  if (known.ok()) return {};
  if (known.code() != ErrorCode::kNotFound) return known.error();
  Credential admin{.id = "admin", .role = Role::kAdmin, .user = options.user, .expires_s = 0, .digest = {}};
  Result<std::string> token = create_token(path, admin);
  if (!token.ok() && token.code() == ErrorCode::kInvalidArgument) {  // A user's name may have other characters.
    admin.user = "admin";
    token = create_token(path, admin);
  }
  ROTA_TRY_ASSIGN(const std::string secret, std::move(token));
  return write_secret(options.state + "/" + std::string(kAdminTokenFile), secret);
}

std::int64_t system_wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<net::Endpoint> check_http_address(const HttpDoorOptions& options) {
  ROTA_TRY_ASSIGN(net::Endpoint endpoint, net::Endpoint::parse(options.address));
  if (!endpoint.unix_path.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--http takes HOST:PORT, for example 127.0.0.1:7070"};
  }
  if (options.certificate.empty() != options.key.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--http-cert and --http-key are given together, or not at all"};
  }
  // The name could mean another address; it means loopback here.
  if (endpoint.host == "localhost") endpoint.host = "127.0.0.1";
  if (!is_loopback(endpoint.host) && options.certificate.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the host does not listen on '" + options.address +
                     "' without TLS: tokens would be sent in the clear. Give --http-cert and --http-key, or listen on "
                     "127.0.0.1"};
  }
  return endpoint;
}

HttpDoor::HttpDoor(Host& host, ledger::Ledger& ledger, const HttpDoorOptions& options, std::vector<std::string> hosts)
    : tokens_(options.state + "/" + std::string(kTokensFile)),
      tail_(host.follower(), ledger),
      services_{.host = host,
                .tail = tail_,
                .wall_ns = options.wall_ns ? options.wall_ns : system_wall_ns,
                .stats = [this] { return server_->stats(); },
                .failures = failures_},
      api_(services_, tokens_, std::move(hosts)) {}

Result<std::unique_ptr<HttpDoor>> HttpDoor::open(Host& host, ledger::Ledger& ledger, net::Network& network,
                                                 HttpDoorOptions options) {
  ROTA_TRY_ASSIGN(const net::Endpoint endpoint, check_http_address(options));
  ROTA_TRY(prepare_tokens(options));
  std::unique_ptr<HttpDoor> door(new HttpDoor(host, ledger, options, names_of(endpoint, options.hosts)));
  ROTA_TRY(door->tokens_.refresh());
  net::Network* listen_on = &network;
  if (!options.certificate.empty()) {
    ROTA_TRY_ASSIGN(door->context_, net::TlsContext::server({.certificate = {.path = options.certificate},
                                                             .key = {.path = options.key},
                                                             .client_ca = {},
                                                             .settings = {.alpn = {"http/1.1"}}}));
    door->tls_ = std::make_unique<net::TlsNetwork>(network, nullptr, door->context_);
    listen_on = door->tls_.get();
  }
  ROTA_TRY_ASSIGN(door->listener_, listen_on->listen(endpoint));
  door->server_ = std::make_unique<net::HttpServer>(*door->listener_, door->api_, options.limits);
  return door;
}

void HttpDoor::run() {
  try {
    fiber::with_scope([this](fiber::Nursery& nursery) {
      nursery.launch([this] { tail_.run(); });
      server_->run();
      nursery.cancel();
    });
  } catch (const fiber::Cancelled&) {
  }
}

Result<void> HttpDoor::reload() { return context_ == nullptr ? Result<void>() : context_->reload(); }

}  // namespace rota::host
