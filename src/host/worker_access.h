// What a worker needs to take part in a fleet, and how the host gives it (H-5).
//
//   join token ── POST /v1/workers/join ──► identity (24 h) and a Redis user of its own
//   identity ──── POST /v1/workers/{name}/renew ──► the next identity
//
// A join token has the role join, is valid for a short time and allows names of one pattern. An identity has the role
// worker and allows its owner to renew it, and nothing else. The Redis user can read the worker's inbox and write its
// outbox (bus/redis_names.h). When an identity expires, its Redis user is removed and its connections are cut.
//
// Thread safety: functions of a Grant are called by one task at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota::host {

inline constexpr std::int64_t kIdentitySeconds = 24 * 3600;

struct WorkerGrant {
  std::string redis{};   // Where the worker connects: the URL without an account.
  std::string prefix{};  // Of the keys.
  std::string user{};    // Empty: this Redis is used without accounts.
  std::string password{};
};

// How the host gives and takes accounts at Redis; empty functions for a host without Redis.
struct WorkerGrants {
  // A new password for the worker's account, which is made if there is none.
  std::function<Result<WorkerGrant>(const std::string& worker)> grant{};
  // Removes the account and cuts its connections.
  std::function<Result<void>(const std::string& worker)> revoke{};
};

// Whether the name matches the pattern: '*' stands for any text, everything else for itself.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);

// The id of a worker's identity among the tokens: names of workers may contain anything and be long.
[[nodiscard]] std::string identity_id(std::string_view worker);

}  // namespace rota::host
