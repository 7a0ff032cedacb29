// `rota token [NAME]`: makes, lists and revokes tokens of a host's HTTP interface. It changes a file in the state
// folder and needs no running host; a running one notices the change with the next request.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "host/http_door.h"
#include "host/http_tokens.h"

namespace rota::cli {

namespace {

struct TokenOptions {
  std::string name;
  std::string state;
  host::Role role = host::Role::kRead;
  std::string user;
  std::string expires;
  bool revoke = false;
};

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

Result<int> token(const TokenOptions& options, Output& output) {
  const std::string path = host_state_of(options.state) + "/" + std::string(host::kTokensFile);
  if (options.name.empty()) {
    if (options.revoke) return Error{ErrorCode::kInvalidArgument, "which token? `rota token` lists them"};
    return list_all(path, output);
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
  if (!options.expires.empty()) {
    ROTA_TRY_ASSIGN(const Duration after, parse_duration(options.expires));
    const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(after).count();
    if (seconds <= 0) return Error{ErrorCode::kInvalidArgument, "--expires must be at least 1 s"};
    credential.expires_s = now_s() + seconds;
  }
  ROTA_TRY_ASSIGN(const std::string secret, host::create_token(path, std::move(credential)));
  output.token_made(options.name, secret);
  return 0;
}

}  // namespace

Subcommand token_subcommand() {
  auto options = std::make_shared<TokenOptions>();
  return {
      .name = "token",
      .meaning = "List the tokens of a host's HTTP interface; make or revoke one",
      .positionals = {positional("NAME", &options->name, "the token that is made or revoked; without it, list them")},
      .options = {host_state(&options->state),
                  choice<host::Role>(
                      "--role",
                      {{"read", host::Role::kRead}, {"submit", host::Role::kSubmit}, {"admin", host::Role::kAdmin}},
                      &options->role, "what it allows (read)"),
                  text("--user", "USER", &options->user, "in whose name it submits and controls workflows (you)"),
                  text("--expires", "DURATION", &options->expires, "how long it is valid: 12h, 30d (for ever)"),
                  flag("--revoke", &options->revoke, "revoke it: the next request with it is refused")},
      .json = "print one JSON object",
      .footer =
          "A new token is printed once; the host keeps only its hash. Send it as `Authorization: Bearer TOKEN`.\n"
          "docs/http.md explains roles.",
      .examples = {"rota token grafana --state /var/lib/rota", "rota token ann --role submit --user ann --expires 30d",
                   "rota token ann --revoke"},
      .run = [options](Output& output) { return token(*options, output); }};
}

}  // namespace rota::cli
