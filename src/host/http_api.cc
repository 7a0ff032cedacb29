#include "host/http_api.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "host/follower.h"
#include "host/http_views.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::string_view kBearer = "bearer ";
constexpr std::chrono::seconds kCheckTokenEvery{5};  // Of a stream.

// "example:8080" -> "example", "[::1]:8080" -> "::1".
std::string host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    return lower_case(authority.substr(1, end == std::string_view::npos ? authority.size() : end - 1));
  }
  return lower_case(authority.substr(0, authority.rfind(':')));
}

// The address without its port: all connections of a client count together.
std::string address_of(std::string_view peer) { return host_of(peer); }

bool role_allows(const Credential& who, Access access) {
  const bool is_user = who.role == Role::kRead || who.role == Role::kSubmit || who.role == Role::kAdmin;
  switch (access) {
    case Access::kOpen:
      return true;
    case Access::kRead:
      return is_user;
    case Access::kSubmit:
    case Access::kOwner:  // The handler compares the owner.
      return is_user && who.role != Role::kRead;
    case Access::kAdmin:
      return who.role == Role::kAdmin;
    case Access::kWorker:  // The handler compares the name.
      return who.role == Role::kWorker;
    case Access::kFiles:
      return is_user || who.role == Role::kWorker;
    case Access::kJoin:
      return who.role == Role::kJoin;
  }
  return false;
}

Result<void> check_type(const HttpRoute& route, const net::HttpRequest& head) {
  if (route.accepts.empty()) return {};
  const std::string* field = head.field("content-type");
  std::string type = field == nullptr ? "" : lower_case(field->substr(0, field->find(';')));
  type.erase(type.find_last_not_of(' ') + 1);
  if (std::find(route.accepts.begin(), route.accepts.end(), type) != route.accepts.end()) return {};
  std::string all;
  for (const std::string_view accepted : route.accepts) all.append(all.empty() ? "" : ", ").append(accepted);
  return Error{ErrorCode::kUnsupported,
               "the Content-Type of the body is '" + printable(type) + "'; accepted are " + all}
      .with("status", "415");
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string to_rfc3339(std::int64_t wall_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t seconds = wall_ns / kSecond;
  std::int64_t rest = wall_ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  const std::time_t time = seconds;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ", parts.tm_year + 1900,
                      parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                      static_cast<long long>(rest));
  return text.data();
}

net::HttpResponse json_response(int status, std::string body) {
  net::HttpResponse response;
  response.status = status;
  response.fields = {{"Content-Type", "application/json"}};
  response.body = std::move(body);
  return response;
}

net::HttpResponse problem_response(const Error& error) {
  const ErrorCodeInfo& info = error_code_info(error.code);
  ProblemView view;
  view.type = "urn:rota:error:" + std::string(info.name);
  view.title = info.meaning;
  view.status = info.http_status;
  view.detail = error.message;
  view.code = info.name;
  net::HttpResponse response;
  for (const auto& [key, value] : error.details) {
    if (key == "status") {
      view.status = std::atoi(value.c_str());
    } else if (key == "allow") {
      response.fields.push_back({"Allow", value});
    } else {
      view.details.members.emplace_back(key, value);
    }
    if (key == "retry_after_ms") {
      response.fields.push_back({"Retry-After", std::to_string(std::max(1, std::atoi(value.c_str()) / 1000))});
    }
  }
  if (view.status == 401) response.fields.push_back({"WWW-Authenticate", "Bearer realm=\"rota\""});
  if (view.status == 503 || (view.status == 429 && error.detail("retry_after_ms") == nullptr)) {
    response.fields.push_back({"Retry-After", "1"});
  }
  response.status = static_cast<int>(view.status);
  response.fields.insert(response.fields.begin(), {"Content-Type", "application/problem+json"});
  response.body = to_view_json(view);
  return response;
}

bool HttpApi::is_ours(std::string_view authority) const {
  return hosts_.empty() || std::find(hosts_.begin(), hosts_.end(), host_of(authority)) != hosts_.end();
}

Result<void> HttpApi::check_origin(const net::HttpRequest& head) const {
  const std::string* host = head.field("host");
  if (host != nullptr && !is_ours(*host)) {
    return Error{ErrorCode::kPermissionDenied,
                 "this host is not known as '" + printable(*host) + "'; allow the name with --http-allow-host"};
  }
  const std::string* origin = head.field("origin");
  if (origin == nullptr) return {};
  // A page may use the interface if it was served by it: by the same name and port.
  const std::size_t scheme = origin->find("://");
  const std::string authority = scheme == std::string::npos ? "" : lower_case(origin->substr(scheme + 3));
  if (authority.empty() || host == nullptr || authority != lower_case(*host)) {
    return Error{ErrorCode::kPermissionDenied, "pages of '" + printable(*origin) + "' may not use this interface"};
  }
  return {};
}

Result<Credential> HttpApi::identify(const net::HttpRequest& head) {
  const std::int64_t now_s = services_.wall_ns() / 1'000'000'000;
  Result<Credential> who = Error{ErrorCode::kUnauthenticated,
                                 "this needs a token: send `Authorization: Bearer TOKEN`; `rota token` makes one"};
  if (const std::string* field = head.field("authorization");
      field != nullptr && lower_case(field->substr(0, kBearer.size())) == kBearer) {
    if (Result<void> fresh = tokens_.refresh(); !fresh.ok()) {
      ROTA_LOG(kError, "nobody can log in", {"why", fresh.error().message});
      return Error{ErrorCode::kUnavailable, "the host cannot read its tokens; its log says why"};
    }
    who = tokens_.authenticate(std::string_view(*field).substr(kBearer.size()), now_s);
  }
  if (who.ok()) return who;
  const std::string address = address_of(head.peer);
  if (services_.failures.count(address, now_s)) {
    return Error{ErrorCode::kOverloaded, "too many requests without a valid token; wait a second"};
  }
  ROTA_LOG(kWarn, "http request without a valid token", {"from", address}, {"method", head.method},
           {"path", printable(head.path)});
  return who;
}

Result<HttpApi::Allowed> HttpApi::check(const net::HttpRequest& head) {
  ROTA_TRY(check_origin(head));
  Allowed allowed{match_route(head.method, head.path), {}};
  const HttpRoute* route = allowed.match.route;
  if (route == nullptr && allowed.match.allow.empty()) {
    return Error{ErrorCode::kNotFound,
                 "there is nothing at '" + printable(head.path) + "'; /openapi.json lists the routes"};
  }
  if (route == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + printable(head.path) + "' takes " + allowed.match.allow + ", not " + printable(head.method)}
        .with("status", "405")
        .with("allow", allowed.match.allow);
  }
  if (route->access != Access::kOpen) {
    ROTA_TRY_ASSIGN(allowed.who, identify(head));
    if (!role_allows(allowed.who, route->access)) {
      return Error{ErrorCode::kPermissionDenied, "the token '" + allowed.who.id + "' has the role '" +
                                                     std::string(to_string(allowed.who.role)) +
                                                     "', which does not allow this"};
    }
  }
  if (route->decides) ROTA_TRY(services_.host.check_leads());
  ROTA_TRY(check_parameters(*route, head));
  ROTA_TRY(check_type(*route, head));
  return allowed;
}

std::string HttpApi::request_id(const net::HttpRequest& request) {
  const std::string* given = request.field("x-request-id");
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (given != nullptr && !given->empty() && given->size() <= 64 &&
      std::all_of(given->begin(), given->end(), is_plain)) {
    return *given;
  }
  // Unique among the requests of this host: the time, and a count.
  std::array<char, 48> text{};
  (void)std::snprintf(text.data(), text.size(), "%llx-%llx", static_cast<unsigned long long>(services_.wall_ns()),
                      static_cast<unsigned long long>(requests_.fetch_add(1)));
  return text.data();
}

net::HttpResponse HttpApi::finish(net::HttpResponse response) const {
  const auto has = [&](std::string_view name) {
    return std::any_of(response.fields.begin(), response.fields.end(),
                       [&](const net::HttpField& field) { return field.name == name; });
  };
  if (!has("Rota-Index")) {
    response.fields.push_back({"Rota-Index", std::to_string(services_.host.follower().index())});
  }
  if (!has("Cache-Control")) response.fields.push_back({"Cache-Control", "no-store"});
  response.fields.push_back({"X-Content-Type-Options", "nosniff"});
  return response;
}

net::HttpHandler::Admission HttpApi::admit(const net::HttpRequest& head) {
  Result<Allowed> allowed = check(head);
  if (!allowed.ok()) return finish(problem_response(allowed.error()));
  const HttpRoute& route = *allowed->match.route;
  if (route.accepts.empty()) return route.method == "GET" ? std::uint64_t{0} : kMostOtherBytes;  // `{}` is ignored.
  if (route.most_bytes > 0) return route.most_bytes;
  return route.body_schema.empty() ? kMostWorkflowBytes : kMostOtherBytes;
}

net::HttpResponse HttpApi::handle(net::HttpRequest& request) {
  // Checked again, because the tokens may have changed while the body was on its way.
  Result<Allowed> allowed = check(request);
  if (!allowed.ok()) return finish(problem_response(allowed.error()));
  HttpCall call{services_, request, allowed->match.route->access == Access::kOpen ? nullptr : &allowed->who,
                std::move(allowed->match.path), request_id(request)};
  Result<net::HttpResponse> response = allowed->match.route->handler(call);
  net::HttpResponse finished = finish(response.ok() ? std::move(*response) : problem_response(response.error()));
  if (finished.stream && call.who != nullptr) guard_stream(finished, request);
  finished.fields.push_back({"X-Request-Id", call.request_id});
  const bool logged = allowed->match.route->logged;
  if (logged && call.who != nullptr && request.method != "GET" && request.method != "HEAD") {
    ROTA_LOG(kInfo, "http request", {"request", call.request_id}, {"token", call.who->id}, {"user", call.who->user},
             {"from", request.peer}, {"method", request.method}, {"path", printable(request.path)},
             {"status", finished.status});
  }
  return finished;
}

// A stream may last for days; a token that was revoked, or has expired, must not read on.
void HttpApi::guard_stream(net::HttpResponse& response, const net::HttpRequest& request) {
  class Writer final : public net::HttpBodyWriter {
   public:
    Writer(net::HttpBodyWriter& inner, std::function<Result<void>()> check)
        : inner_(inner), check_(std::move(check)), checked_(fiber::now()) {}
    Result<void> write(std::string_view piece) override {
      if (fiber::now() - checked_ >= kCheckTokenEvery) {
        ROTA_TRY(check_());
        checked_ = fiber::now();
      }
      return inner_.write(piece);
    }

   private:
    net::HttpBodyWriter& inner_;
    const std::function<Result<void>()> check_;
    std::chrono::nanoseconds checked_;
  };
  const std::string* field = request.field("authorization");
  std::string token = field == nullptr ? "" : field->substr(std::min(field->size(), kBearer.size()));
  response.stream = [this, token = std::move(token), stream = std::move(response.stream)](net::HttpBodyWriter& inner) {
    Writer writer(inner, [&]() -> Result<void> {
      ROTA_TRY(tokens_.refresh());
      ROTA_TRY(tokens_.authenticate(token, services_.wall_ns() / 1'000'000'000));
      return {};
    });
    return stream(writer);
  };
}

net::HttpResponse HttpApi::refuse(int status, const Error& error) {
  Error known = error;
  std::erase_if(known.details, [](const ErrorDetail& detail) { return detail.key == "status"; });
  return finish(problem_response(std::move(known).with("status", std::to_string(status))));
}

}  // namespace rota::host
