// Handlers for administrators and for workers that join: tokens and identities.
#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "bus/redis_names.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "model/json.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/sync.h"

namespace rota::host {

namespace {

constexpr std::int64_t kMostSeconds = std::int64_t{100} * 366 * 86400;

Error wrong_body(std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               "the body " + std::string(why) +
                   "; write {\"name\": \"ann\", \"role\": \"submit\", \"user\": \"ann\", \"expires_sec\": 86400}"};
}

Result<Credential> credential_in(const HttpCall& call) {
  const std::string& body = call.request.body;
  if (!model::json_validate(body).ok() || model::json_kind(body) != model::JsonKind::kObject) {
    return wrong_body("must be a JSON object");
  }
  Credential credential;
  credential.user = call.who->user;
  std::string role = "read";
  for (const auto& [name, value] : model::json_members(body)) {
    const bool is_text = model::json_kind(value) == model::JsonKind::kString;
    if (name == "name" && is_text) {
      credential.id = model::json_unescape(value);
    } else if (name == "role" && is_text) {
      role = model::json_unescape(value);
    } else if (name == "user" && is_text) {
      credential.user = model::json_unescape(value);
    } else if (name == "expires_sec") {
      std::int64_t seconds = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
      if (error != std::errc() || end != value.data() + value.size() || seconds < 0 || seconds > kMostSeconds) {
        return wrong_body("has an 'expires_sec' that is not a number of seconds");
      }
      credential.expires_s = seconds == 0 ? 0 : call.services.wall_ns() / 1'000'000'000 + seconds;
    } else {
      return wrong_body("has the member '" + printable(name) + "', which is unknown or of another type");
    }
  }
  for (std::size_t i = 0; i < model::enumerator_count<Role>; ++i) {
    if (enum_names(Role{})[i] != role) continue;
    credential.role = static_cast<Role>(i);
    return credential;
  }
  return wrong_body("has the role '" + printable(role) + "'; there are read, submit, admin and join");
}

// The number, or true and false, of a body with a single member. Nothing for an empty object.
Result<std::string_view> single_member(const std::string& body, std::string_view name, std::string_view example) {
  const Error wrong{ErrorCode::kInvalidArgument, "the body must be " + std::string(example)};
  if (!model::json_validate(body).ok() || model::json_kind(body) != model::JsonKind::kObject) return wrong;
  const auto members = model::json_members(body);
  if (members.empty()) return std::string_view();
  if (members.size() != 1 || members[0].first != name) return wrong;
  return members[0].second;
}

constexpr std::int64_t kMostJoinSeconds = 24 * 3600;
constexpr std::int64_t kKeepIdentity = 600;  // If the response to a renewal is lost, the former one renews again.

std::int64_t now_s(const HttpCall& call) { return call.services.wall_ns() / 1'000'000'000; }

// The next identity of the worker, and its account at Redis if `redis`.
Result<net::HttpResponse> give_access(HttpCall& call, const std::string& name, bool redis,
                                      std::int64_t former_until_s) {
  HttpServices& services = call.services;
  if (!services.grants.grant) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this host has no Redis, so no worker of another machine can join; start it with --redis"};
  }
  const std::unique_lock<fiber::Mutex> one(services.granting);
  WorkerAccessView view;
  view.name = name;
  if (redis) {
    ROTA_TRY_ASSIGN(WorkerGrant grant, services.grants.grant(name));
    view.redis = std::move(grant.redis);
    view.redis_prefix = std::move(grant.prefix);
    view.redis_user = std::move(grant.user);
    view.redis_password = std::move(grant.password);
  }
  const Credential identity{.id = identity_id(name),
                            .role = Role::kWorker,
                            .user = bus::escape_name(name),
                            .expires_s = now_s(call) + kIdentitySeconds};
  view.expires = {identity.expires_s * 1'000'000'000};
  ROTA_TRY_ASSIGN(view.identity,
                  fiber::blocking([&] { return replace_token(services.tokens, identity, former_until_s); }));
  ROTA_LOG(kInfo, redis ? "a worker has joined" : "a worker's identity was renewed", {"worker", name},
           {"token", call.who->id}, {"from", call.request.peer});
  return json_response(200, to_view_json(view));
}

}  // namespace

namespace routes {

Result<net::HttpResponse> list_tokens(HttpCall& call) {
  ROTA_TRY_ASSIGN(const std::vector<Credential> tokens,
                  fiber::blocking([&] { return read_tokens(call.services.tokens); }));
  TokenPage page;
  for (const Credential& token : tokens) {
    page.items.push_back({token.id, std::string(to_string(token.role)), token.user, {token.expires_s * 1'000'000'000}});
  }
  return json_response(200, to_view_json(page));
}

Result<net::HttpResponse> make_token(HttpCall& call) {
  ROTA_TRY_ASSIGN(Credential credential, credential_in(call));
  if (credential.role == Role::kWorker) return wrong_body("has the role 'worker'; workers get it when they join");
  if (credential.role == Role::kJoin) {
    const std::int64_t latest = now_s(call) + kMostJoinSeconds;
    if (credential.expires_s == 0 || credential.expires_s > latest) credential.expires_s = latest;
  }
  ROTA_TRY_ASSIGN(std::string secret, fiber::blocking([&] { return create_token(call.services.tokens, credential); }));
  // The worker trusts this CA alone.
  if (credential.role == Role::kJoin && !call.services.ca_sha256.empty()) secret += "." + call.services.ca_sha256;
  return json_response(201, to_view_json(NewTokenView{credential.id, std::move(secret)}));
}

Result<net::HttpResponse> rotate_token(HttpCall& call) {
  ROTA_TRY_ASSIGN(const std::string_view value, single_member(call.request.body, "keep_sec", "{\"keep_sec\": 3600}"));
  std::int64_t keep = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), keep);
  if (!value.empty() &&
      (error != std::errc() || end != value.data() + value.size() || keep < 0 || keep > kMostSeconds)) {
    return Error{ErrorCode::kInvalidArgument, "'keep_sec' is not a number of seconds"};
  }
  ROTA_TRY_ASSIGN(std::string secret, fiber::blocking([&] {
                    return host::rotate_token(call.services.tokens, call.path[0], keep == 0 ? 0 : now_s(call) + keep);
                  }));
  return json_response(200, to_view_json(NewTokenView{call.path[0], std::move(secret)}));
}

Result<net::HttpResponse> join_worker(HttpCall& call) {
  ROTA_TRY_ASSIGN(const std::string_view value, single_member(call.request.body, "name", "{\"name\": \"gpu-1\"}"));
  if (value.empty() || model::json_kind(value) != model::JsonKind::kString) {
    return Error{ErrorCode::kInvalidArgument, "the body must be {\"name\": \"gpu-1\"}"};
  }
  const std::string name = model::json_unescape(value);
  ROTA_TRY(bus::check_worker_name(name));
  if (!matches_pattern(call.who->user, name)) {
    return Error{ErrorCode::kPermissionDenied,
                 "this join token is for workers named '" + call.who->user + "', not '" + printable(name) + "'"};
  }
  return give_access(call, name, true, 0);
}

Result<net::HttpResponse> renew_worker(HttpCall& call) {
  const std::string& name = call.path[0];
  if (bus::escape_name(name) != call.who->user) {
    return Error{ErrorCode::kPermissionDenied, "this identity is not that of '" + printable(name) + "'"};
  }
  ROTA_TRY_ASSIGN(const std::string_view redis, single_member(call.request.body, "redis", "{\"redis\": false}"));
  if (!redis.empty() && redis != "true" && redis != "false") {
    return Error{ErrorCode::kInvalidArgument, "the body must be {\"redis\": false}"};
  }
  return give_access(call, name, redis == "true", now_s(call) + kKeepIdentity);
}

Result<net::HttpResponse> delete_token(HttpCall& call) {
  ROTA_TRY(fiber::blocking([&] { return revoke_token(call.services.tokens, call.path[0]); }));
  return json_response(200, to_view_json(DoneView{}));
}

}  // namespace routes

}  // namespace rota::host
