#include "bus/redis_accounts.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/os_error.h"
#include "bus/redis_names.h"
#include "net/redis_connection.h"

namespace rota::bus {

namespace {

Result<std::string> random_password() {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, 32> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (count < 0 && errno != EINTR) return os_error(errno, "getrandom");
    if (count > 0) filled += static_cast<std::size_t>(count);
  }
  std::string text;
  for (const unsigned char byte : bytes) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

}  // namespace

Result<void> RedisAccounts::run(std::initializer_list<std::string_view> first, const std::vector<std::string>& more) {
  net::RedisConnectOptions connect;
  connect.within = options_.connect_within;
  connect.tls = options_.tls;
  ROTA_TRY_ASSIGN(const std::unique_ptr<net::RedisConnection> connection,
                  net::RedisConnection::open(network_, options_.url, connect));
  net::RespCommands commands;
  commands.begin(first.size() + more.size());
  for (const std::string_view word : first) commands.argument(word);
  for (const std::string& word : more) commands.argument(word);
  ROTA_TRY_ASSIGN(const std::vector<net::RespValue> replies, connection->exchange(commands, options_.reply_within));
  connection->close();
  if (replies.front().is_error()) {
    return net::redis_error(replies.front().text, options_.url.endpoint.to_string());
  }
  return {};
}

Result<RedisAccount> RedisAccounts::grant(const std::string& worker) {
  ROTA_TRY(check_worker_name(worker));
  RedisAccount account;
  account.prefix = options_.prefix;
  account.user = user_of(options_.prefix, escape_name(worker));
  ROTA_TRY_ASSIGN(account.password, random_password());
  std::vector<std::string> rules = worker_acl_rules(options_.prefix, worker);
  rules.push_back(">" + account.password);
  Result<void> made = run({"ACL", "SETUSER", account.user}, rules);
  if (!made.ok()) {
    Error error = std::move(made).take_error();
    error.message = "the account of '" + worker + "' at Redis could not be made: " + error.message;
    return error;
  }
  (void)run({"ACL", "SAVE"}, {});  // Refused by a server without an aclfile.
  net::RedisUrl url = options_.url;
  url.user.clear();
  url.password.clear();
  account.url = url.to_string();
  return account;
}

Result<void> RedisAccounts::revoke(const std::string& escaped) {
  ROTA_TRY(run({"ACL", "DELUSER", user_of(options_.prefix, escaped)}, {}));
  (void)run({"ACL", "SAVE"}, {});
  return {};
}

}  // namespace rota::bus
