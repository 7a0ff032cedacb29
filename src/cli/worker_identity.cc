#include "cli/worker_identity.h"

#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <mutex>
#include <new>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
#include "base/log.h"
#include "cli/remote_host.h"
#include "host/host_init.h"
#include "host/worker_access.h"
#include "model/json.h"
#include "net/redis_url.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/time.h"

namespace rota::cli {

namespace {

constexpr std::chrono::minutes kTryAgain{1};
constexpr int kSecretTries = 30;
constexpr std::chrono::seconds kSecretPause{2};

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The members of the file, by name.
struct Row {
  std::string_view name;
  std::string WorkerIdentity::* member;
};
constexpr std::array<Row, 8> kRows{{{"host", &WorkerIdentity::host},
                                    {"ca_sha256", &WorkerIdentity::ca_sha256},
                                    {"name", &WorkerIdentity::name},
                                    {"identity", &WorkerIdentity::identity},
                                    {"redis", &WorkerIdentity::redis},
                                    {"redis_prefix", &WorkerIdentity::prefix},
                                    {"redis_user", &WorkerIdentity::user},
                                    {"redis_password", &WorkerIdentity::password}}};

Result<std::shared_ptr<RemoteHost>> open_host(const WorkerIdentity& identity, const std::string& token) {
  HostContext context{identity.host, token, {}};
  if (!identity.ca_sha256.empty()) context.ca = "sha256:" + identity.ca_sha256;
  return RemoteHost::open(context);
}

// Takes over what the host gave; members that it left empty stay as they are.
Result<void> take_over(const net::HttpResponse& response, WorkerIdentity& identity) {
  ROTA_TRY_ASSIGN(const WorkerIdentity given, parse_identity(response.body));
  if (given.identity.empty()) return Error{ErrorCode::kCorrupt, "the host gave no identity"};
  for (const Row& row : kRows) {
    if (!(given.*row.member).empty()) identity.*row.member = given.*row.member;
  }
  identity.expires_s = now_s() + host::kIdentitySeconds;  // The host's clock may differ.
  return {};
}

Result<void> renew(WorkerIdentity& identity, bool redis) {
  ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, open_host(identity, identity.identity));
  ROTA_TRY_ASSIGN(const net::HttpResponse response,
                  host->ask({.method = "POST",
                             .target = "/v1/workers/" + net::percent_encode(identity.name) + "/renew",
                             .type = "application/json",
                             .body = redis ? "{\"redis\": true}" : "{\"redis\": false}"}));
  return take_over(response, identity);
}

Result<void> join(WorkerIdentity& identity, const std::string& token) {
  ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, open_host(identity, token));
  std::string body;
  JsonWriter json(body);
  json.begin_object().field("name", identity.name).end_object();
  ROTA_TRY_ASSIGN(
      const net::HttpResponse response,
      host->ask({.method = "POST", .target = "/v1/workers/join", .type = "application/json", .body = body}));
  return take_over(response, identity);
}

Result<WorkerIdentity> read_identity(const std::string& file) {
  std::ifstream stream(file);
  if (file.empty() || !stream) return Error{ErrorCode::kNotFound, "there is no identity yet"};
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_identity(text.str());
}

}  // namespace

std::string to_text(const WorkerIdentity& identity) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  for (const Row& row : kRows) json.field(row.name, identity.*row.member);
  json.field("expires_s", identity.expires_s).end_object();
  return text + "\n";
}

Result<WorkerIdentity> parse_identity(std::string_view text) {
  WorkerIdentity identity;
  ROTA_TRY(model::json_validate(text));
  if (model::json_kind(text) != model::JsonKind::kObject) return Error{ErrorCode::kParseError, "not a JSON object"};
  for (const Row& row : kRows) {
    const std::string_view value = model::json_member(text, row.name);
    if (value.data() != nullptr && model::json_kind(value) == model::JsonKind::kString) {
      identity.*row.member = model::json_unescape(value);
    }
  }
  const std::string_view expires = model::json_member(text, "expires_s");
  if (expires.data() != nullptr)
    (void)std::from_chars(expires.data(), expires.data() + expires.size(), identity.expires_s);
  return identity;
}

Result<std::string> WorkerIdentity::redis_url(const std::string& address) const {
  std::string url = address.empty() ? redis : address;
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) return Error{ErrorCode::kCorrupt, "the host named no Redis server"};
  if (user.empty()) return url;
  const std::size_t at = url.find('@');
  if (at != std::string::npos) url.erase(scheme + 3, at - scheme - 2);  // The account that was given by hand.
  url.insert(scheme + 3, net::percent_encode(user) + ":" + net::percent_encode(password) + "@");
  ROTA_TRY(net::RedisUrl::parse(url));
  return url;
}

Result<WorkerIdentity> join_fleet(const std::string& url, const std::string& token, const std::string& name,
                                  const std::string& file) {
  WorkerIdentity identity;
  identity.host = url;
  identity.name = name;
  const std::size_t dot = token.rfind('.');
  const bool pinned = dot != std::string::npos && token.size() - dot - 1 == 64;
  if (pinned) identity.ca_sha256 = token.substr(dot + 1);
  if (Result<WorkerIdentity> kept = read_identity(file);
      kept.ok() && kept->host == url && kept->name == name && kept->expires_s > now_s()) {
    // A new password as well: Redis may have been restarted, and forgotten the account.
    if (Result<void> renewed = renew(*kept, true); renewed.ok()) {
      ROTA_TRY(host::write_private(file, to_text(*kept)));
      return kept;
    } else if (token.empty()) {
      return std::move(renewed).take_error();
    }
  }
  if (token.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "this worker has no valid identity; give a join token with --token (`rota token join` makes one)"};
  }
  ROTA_TRY(join(identity, pinned ? token.substr(0, dot) : token));
  if (!file.empty()) ROTA_TRY(host::write_private(file, to_text(identity)));
  return identity;
}

Result<void> CurrentIdentity::renew(bool redis) {
  ROTA_TRY(renewing_.lock(std::nothrow));
  const std::lock_guard<fiber::Mutex> alone(renewing_, std::adopt_lock);
  WorkerIdentity identity = get();
  // The client has a runtime of its own, which a helper thread runs.
  ROTA_TRY(fiber::blocking([&] { return cli::renew(identity, redis); }));
  {
    const sync::MutexLock lock(mutex_);
    identity_ = identity;
  }
  if (file_.empty()) return {};
  // Without the file, the worker works until it is started again.
  const Result<void> kept = fiber::blocking([&] { return host::write_private(file_, to_text(identity)); });
  if (!kept.ok()) ROTA_LOG(kWarn, "the worker's identity was not saved", {"why", kept.error().message});
  return {};
}

void keep_identity(CurrentIdentity& current) {
  for (;;) {
    const std::int64_t left = current.get().expires_s - now_s();
    const std::int64_t before = host::kIdentitySeconds / 3;
    if (left > before && !fiber::sleep_for(std::chrono::seconds(left - before)).ok()) return;
    const Result<void> renewed = current.renew(false);
    if (renewed.ok()) {
      ROTA_LOG(kInfo, "the worker's identity was renewed");
      continue;
    }
    ROTA_LOG(kWarn, "the worker's identity was not renewed; trying again", {"why", renewed.error().message});
    if (!fiber::sleep_for(kTryAgain).ok()) return;
  }
}

Result<std::string> fetch_secret(const CurrentIdentity& identity, const SecretRequest& request) {
  std::string target = "/v1/secrets/" + net::percent_encode(request.name) +
                       "?task=" + net::percent_encode(request.task.to_string()) +
                       "&attempt=" + std::to_string(request.attempt.value());
  if (!request.version.empty()) target += "&version=" + net::percent_encode(request.version);
  for (int i = 0;; ++i) {
    // The client has a runtime of its own, which a helper thread runs.
    Result<std::string> value = fiber::blocking([&]() -> Result<std::string> {
      const WorkerIdentity now = identity.get();
      ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, open_host(now, now.identity));
      ROTA_TRY_ASSIGN(net::HttpResponse response, host->ask({.target = target}));
      return std::move(response.body);
    });
    const bool unreachable = value.code() == ErrorCode::kUnavailable || value.code() == ErrorCode::kIoError ||
                             value.code() == ErrorCode::kDeadlineExceeded;
    if (value.ok() || !unreachable || i >= kSecretTries) return value;
    ROTA_TRY(fiber::sleep_for(kSecretPause));
  }
}

}  // namespace rota::cli
