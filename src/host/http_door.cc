#include "host/http_door.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/os_error.h"
#include "base/replace_file.h"
#include "base/secret_file.h"
#include "host/follower.h"
#include "host/host_init.h"
#include "host/http_metrics.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::chrono::minutes kTidyEvery{1};
constexpr std::chrono::seconds kMetricsEvery{10};

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
  return write_private(options.state + "/" + std::string(kAdminTokenFile), secret + "\n");
}

std::int64_t system_wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Chooses the files of `rota host init` if no others were given; true if they exist.
bool use_own_certificate(HttpDoorOptions& options) {
  const HostFiles files(options.state);
  std::error_code error;
  if (!options.certificate.empty() || !options.key.empty() || !std::filesystem::exists(files.key(), error))
    return false;
  options.certificate = files.certificate();
  options.key = files.key();
  return true;
}

}  // namespace

bool has_certificate(const std::string& state) {
  std::error_code error;
  return std::filesystem::exists(HostFiles(state).key(), error);
}

Result<net::Endpoint> check_http_address(const HttpDoorOptions& given) {
  HttpDoorOptions options = given;
  (void)use_own_certificate(options);
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
    return Error{
        ErrorCode::kFailedPrecondition,
        "the host does not listen on '" + options.address +
            "' without TLS: tokens would be sent in the clear. Call `rota host init` once, give --http-cert and "
            "--http-key, or listen on 127.0.0.1"};
  }
  return endpoint;
}

HttpDoor::HttpDoor(Host& host, ledger::Ledger& ledger, const HttpDoorOptions& options, std::vector<std::string> hosts)
    : state_(options.state),
      metrics_(options.metrics),
      tokens_(options.state + "/" + std::string(kTokensFile)),
      tail_(host.follower(), ledger),
      services_{.host = host,
                .tail = tail_,
                .ledger = ledger,
                .logs = options.state + "/logs",
                .density = options.density,
                .tokens = options.state + "/" + std::string(kTokensFile),
                .ca_sha256 = ca_sha256(options.state).ok() ? *ca_sha256(options.state) : std::string(),
                .secrets = options.secrets,
                .grants = options.grants,
                .wall_ns = options.wall_ns ? options.wall_ns : system_wall_ns,
                .stats = [this] { return server_->stats(); },
                .failures = failures_},
      api_(services_, tokens_, std::move(hosts)) {
  if (options.files.empty()) return;
  services_.files = std::make_unique<FileUploads>(
      net::FileStore::Options{.directory = options.files,
                              .most_bytes = options.files_bytes,
                              .setting = "--files-bytes of the host",
                              .advice = "wait until the host forgets older workflows, whose files it removes then"});
}

Result<std::unique_ptr<HttpDoor>> HttpDoor::open(Host& host, ledger::Ledger& ledger, net::Network& network,
                                                 HttpDoorOptions options) {
  ROTA_TRY_ASSIGN(const net::Endpoint endpoint, check_http_address(options));
  ROTA_TRY(prepare_tokens(options));
  if (!options.secrets.empty()) {
    ROTA_TRY(check_secret_directory(options.secrets));
    // This process will have values in its memory: neither a core dump nor another process of this user may read it.
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  }
  const bool own_certificate = use_own_certificate(options);
  std::unique_ptr<HttpDoor> door(new HttpDoor(host, ledger, options, names_of(endpoint, options.hosts)));
  door->own_certificate_ = own_certificate;
  // A certificate that expired while the host was stopped is renewed before it is used.
  if (own_certificate) door->tidy();
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
      nursery.launch([this] { keep_tidy(); });
      if (!metrics_.empty()) nursery.launch([this] { keep_metrics(); });
      server_->run();
      if (!metrics_.empty()) write_metrics();
      nursery.cancel();
    });
  } catch (const fiber::Cancelled&) {
  }
}

void HttpDoor::keep_tidy() {
  while (fiber::sleep_for(kTidyEvery).ok()) tidy();
}

void HttpDoor::keep_metrics() {
  do write_metrics();
  while (fiber::sleep_for(kMetricsEvery).ok());
}

void HttpDoor::write_metrics() {
  const Result<std::vector<Metric>> metrics = collect_metrics(services_);
  if (!metrics.ok()) return;
  if (const Result<void> written = replace_file(metrics_, to_json(*metrics)); !written.ok()) {
    ROTA_LOG(kWarn, "metrics not written", {"why", written.error().message});
  }
}

void HttpDoor::tidy() {
  const std::int64_t now_s = services_.wall_ns() / 1'000'000'000;
  if (own_certificate_) {
    const Result<bool> renewed = renew_certificate(state_, now_s);
    if (!renewed.ok()) ROTA_LOG(kError, "the host's certificate was not renewed", {"why", renewed.error().message});
    if (renewed.ok() && *renewed) {
      ROTA_LOG(kInfo, "the host's certificate was renewed");
      if (const Result<void> read = reload(); !read.ok())
        ROTA_LOG(kError, "certificate", {"why", read.error().message});
    }
  }
  const Result<std::vector<Credential>> tokens = read_tokens(services_.tokens);
  if (!tokens.ok()) return;
  for (const Credential& token : *tokens) {
    const bool is_machine = token.role == Role::kWorker || token.role == Role::kJoin;
    if (!is_machine || token.expires_s > now_s) continue;
    if (token.role == Role::kWorker) {
      ROTA_LOG(kWarn, "the identity of a worker has expired; it was not renewed", {"worker", token.user});
      if (services_.grants.revoke) {
        if (const Result<void> revoked = services_.grants.revoke(token.user); !revoked.ok()) {
          ROTA_LOG(kError, "its account at Redis was not removed", {"worker", token.user},
                   {"why", revoked.error().message});
          continue;  // Tried again.
        }
      }
    }
    (void)revoke_token(services_.tokens, token.id);
  }
}

Result<void> HttpDoor::reload() { return context_ == nullptr ? Result<void>() : context_->reload(); }

}  // namespace rota::host
