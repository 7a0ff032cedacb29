// RedisAccounts: gives every worker an account of its own at Redis, with the rights of worker_acl_rules() and no others
// (H-5).
//
// The user of the host needs the right to change accounts: `+acl|setuser +acl|deluser`, as the default user has it.
// Accounts live in Redis's memory unless the server saves them (ACL SAVE with an aclfile), which this class asks for. A
// worker whose account was forgotten renews its identity with `redis: true` (RedisBusOptions::new_account).
//
// Thread safety: functions from any task.
#pragma once

#include <string>

#include "bus/redis_bus.h"
#include "net/stream.h"
#include "rota/result.h"

namespace rota::bus {

struct RedisAccount {
  std::string url{};  // Without an account.
  std::string prefix{};
  std::string user{};
  std::string password{};
};

class RedisAccounts {
 public:
  RedisAccounts(net::Network& network, RedisBusOptions options) : network_(network), options_(std::move(options)) {}

  // A new password for the worker's account; the former one is refused from now on.
  Result<RedisAccount> grant(const std::string& worker);
  // Removes the account, and cuts its connections. `escaped`: escape_name() of the worker's name.
  Result<void> revoke(const std::string& escaped);

  // The account's name: "rota:worker:gpu-1".
  [[nodiscard]] static std::string user_of(const std::string& prefix, const std::string& escaped) {
    return prefix + ":worker:" + escaped;
  }

 private:
  Result<void> run(std::initializer_list<std::string_view> first, const std::vector<std::string>& more);

  net::Network& network_;
  const RedisBusOptions options_;
};

}  // namespace rota::bus
