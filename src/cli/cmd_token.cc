// `rota token [NAME]`: makes, lists and revokes tokens of a host's HTTP interface. With a state folder it changes a
// file there and needs no running host; a running one notices the change with the next request. With a URL it asks the
// host, which needs a token with the role admin.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/units.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/remote_host.h"
#include "cli/subcommands.h"
#include "host/host_init.h"
#include "host/http_door.h"
#include "host/http_tokens.h"
#include "model/json.h"

namespace rota::cli {

namespace {

struct TokenOptions {
  std::string name;
  std::string host;
  host::Role role = host::Role::kRead;
  std::string user;
  std::string expires;
  bool revoke = false;
  bool rotate = false;
  std::string keep;
  std::string pattern;  // With `rota token join`.
};

// A duration of at least a second.
Result<std::int64_t> seconds_of(const std::string& text, std::string_view option) {
  if (text.empty()) return 0;
  ROTA_TRY_ASSIGN(const Duration given, parse_duration(text));
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(given).count();
  if (seconds <= 0) return Error{ErrorCode::kInvalidArgument, std::string(option) + " must be at least 1 s"};
  return seconds;
}

// `rota token join`: each has a name of its own, so that several can be valid.
std::string join_name() {
  std::random_device random;
  std::array<char, 24> text{};
  (void)std::snprintf(text.data(), text.size(), "join-%08x", random());
  return text.data();
}

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<int> list_all(const std::string& path, Output& output) {
  Result<std::vector<host::Credential>> tokens = host::read_tokens(path);
  if (!tokens.ok() && tokens.code() != ErrorCode::kNotFound) return std::move(tokens).take_error();
  std::vector<TokenLine> lines;
  for (const host::Credential& token : tokens.ok() ? *tokens : std::vector<host::Credential>()) {
    TokenLine line{.name = token.id, .role = std::string(to_string(token.role)), .user = token.user};
    if (token.expires_s != 0) line.expires = utc_date_time(token.expires_s * 1'000'000'000);
    line.over = token.expires_s != 0 && token.expires_s <= now_s();
    lines.push_back(std::move(line));
  }
  output.tokens(lines);
  return 0;
}

// The same over HTTP.
Result<int> remote_token(RemoteHost& host, const TokenOptions& options, std::int64_t expires_sec, Output& output) {
  const auto text = [](std::string_view object, std::string_view name) {
    const std::string_view value = model::json_member(object, name);
    return value.data() != nullptr && model::json_kind(value) == model::JsonKind::kString ? model::json_unescape(value)
                                                                                          : std::string();
  };
  if (options.name.empty()) {
    ROTA_TRY_ASSIGN(const net::HttpResponse response, host.ask({.target = "/v1/tokens"}));
    ROTA_TRY(model::json_validate(response.body));
    std::vector<TokenLine> lines;
    for (const std::string_view item : model::json_elements(model::json_member(response.body, "items"))) {
      TokenLine line{.name = text(item, "name"), .role = text(item, "role"), .user = text(item, "user")};
      // "2026-11-17T08:00:00.000000000Z"
      std::string expires = text(item, "expires");
      if (expires.size() >= 19) {
        expires.resize(19);
        expires[10] = ' ';
        line.over = expires <= utc_date_time(now_s() * 1'000'000'000);
        line.expires = std::move(expires);
      }
      lines.push_back(std::move(line));
    }
    output.tokens(lines);
    return 0;
  }
  if (options.rotate) {
    ROTA_TRY_ASSIGN(const std::int64_t keep, seconds_of(options.keep, "--keep"));
    ROTA_TRY_ASSIGN(const net::HttpResponse response,
                    host.ask({.method = "POST",
                              .target = "/v1/tokens/" + net::percent_encode(options.name) + "/rotate",
                              .type = "application/json",
                              .body = "{\"keep_sec\": " + std::to_string(keep) + "}"}));
    ROTA_TRY(model::json_validate(response.body));
    output.token_made(options.name, text(response.body, "token"));
    return 0;
  }
  if (options.revoke) {
    ROTA_TRY(host.ask({.method = "DELETE", .target = "/v1/tokens/" + net::percent_encode(options.name)}));
    output.token_revoked(options.name);
    return 0;
  }
  std::string body;
  JsonWriter json(body);
  json.begin_object().field("name", options.name).field("role", to_string(options.role));
  if (!options.user.empty()) json.field("user", options.user);
  json.field("expires_sec", expires_sec).end_object();
  ROTA_TRY_ASSIGN(const net::HttpResponse response,
                  host.ask({.method = "POST", .target = "/v1/tokens", .type = "application/json", .body = body}));
  ROTA_TRY(model::json_validate(response.body));
  output.token_made(options.name, text(response.body, "token"));
  return 0;
}

Result<int> token(TokenOptions options, Output& output) {
  if (options.name.empty() && (options.revoke || options.rotate)) {
    return Error{ErrorCode::kInvalidArgument, "which token? `rota token` lists them"};
  }
  const bool joins = !options.pattern.empty();
  if (joins != (options.name == "join" && !options.revoke && !options.rotate)) {
    return Error{ErrorCode::kInvalidArgument,
                 "a join token is made by `rota token join --name PATTERN`: the names of the workers that it admits"};
  }
  if (joins) {
    options.name = join_name();
    options.role = host::Role::kJoin;
    options.user = options.pattern;
    if (options.expires.empty()) options.expires = "15m";
  }
  ROTA_TRY_ASSIGN(const std::int64_t expires_sec, seconds_of(options.expires, "--expires"));
  if (joins && expires_sec > 24 * 3600) {
    return Error{ErrorCode::kInvalidArgument, "a join token is valid for at most 24 h"};
  }
  ROTA_TRY_ASSIGN(const std::string target, host_target(options.host));
  if (is_url(target)) {
    ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, RemoteHost::open(target));
    return remote_token(*host, options, expires_sec, output);
  }
  const std::string path = target + "/" + std::string(host::kTokensFile);
  if (options.name.empty()) return list_all(path, output);
  if (options.rotate) {
    ROTA_TRY_ASSIGN(const std::int64_t keep, seconds_of(options.keep, "--keep"));
    ROTA_TRY_ASSIGN(const std::string secret, host::rotate_token(path, options.name, keep == 0 ? 0 : now_s() + keep));
    output.token_made(options.name, secret);
    return 0;
  }
  if (options.revoke) {
    ROTA_TRY(host::revoke_token(path, options.name));
    output.token_revoked(options.name);
    return 0;
  }
  host::Credential credential;
  credential.id = options.name;
  credential.role = options.role;
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  credential.user = !options.user.empty() ? options.user : user == nullptr || *user == '\0' ? "local" : user;
  if (expires_sec > 0) credential.expires_s = now_s() + expires_sec;
  ROTA_TRY_ASSIGN(std::string secret, host::create_token(path, std::move(credential)));
  if (joins) {
    if (const Result<std::string> ca = host::ca_sha256(target); ca.ok()) secret += "." + *ca;
  }
  output.token_made(options.name, secret);
  return 0;
}

}  // namespace

Subcommand token_subcommand() {
  auto options = std::make_shared<TokenOptions>();
  return {
      .name = "token",
      .meaning = "List the tokens of a host's HTTP interface; make or revoke one",
      .positionals = {positional("TOKEN", &options->name,
                                 "the token that is made or revoked, or `join`; without it, list them")},
      .options = with_host(
          &options->host,
          {choice<host::Role>(
               "--role", {{"read", host::Role::kRead}, {"submit", host::Role::kSubmit}, {"admin", host::Role::kAdmin}},
               &options->role, "what it allows (read)"),
           text("--user", "USER", &options->user, "in whose name it submits and controls workflows (you)"),
           text("--expires,--ttl", "DURATION", &options->expires,
                "how long it is valid: 12h, 30d (for ever; a join token 15m)"),
           text("--name", "PATTERN", &options->pattern,
                "with `join`: the names of the workers that it admits, '*' for any text"),
           flag("--rotate", &options->rotate, "give it a new secret, which is printed once"),
           text("--keep", "DURATION", &options->keep,
                "with --rotate: how long the old secret stays valid (not at all)"),
           flag("--revoke", &options->revoke, "revoke it: the next request with it is refused")}),
      .json = "print one JSON object",
      .footer =
          "A new token is printed once; the host keeps only its hash. Send it as `Authorization: Bearer TOKEN`.\n"
          "docs/http.md explains roles.",
      .examples = {"rota token grafana --state /var/lib/rota", "rota token ann --role submit --user ann --expires 30d",
                   "rota token ann --rotate --keep 1h", "rota token ann --revoke",
                   "rota token join --name 'gpu-*' --ttl 15m"},
      .run = [options](Output& output) { return token(*options, output); }};
}

}  // namespace rota::cli
