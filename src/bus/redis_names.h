// The keys of a fleet in Redis, and the rights of a Redis user for one worker (H-5).
//
//   <prefix>:to:<worker>     stream  messages for the worker; the host writes and trims, the worker reads
//   <prefix>:from:<worker>   stream  messages of the worker; the worker writes, the host reads and trims
//   <prefix>:join            list    names of workers that have connected; workers push, the host pops
//   <prefix>:workers         set     the workers that the host knows; the host's own
//   <prefix>:wake            stream  the host wakes its own readers
//
// A worker's name may contain any byte. In a key, every byte except A-Z a-z 0-9 . _ - becomes %XX; therefore two names
// never share a key, and no name contains a character with a meaning in a pattern of Redis.
//
// Why a list: every worker must be able to announce itself in a key that all of them share, and none may take away the
// announcement of another. With LPUSH alone a worker can only add. (With XADD it could trim a shared stream, or block
// it for all by adding the largest possible id.) Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::bus {

inline constexpr std::size_t kMostNameBytes = 255;
inline constexpr std::size_t kMostPrefixBytes = 64;

// InvalidArgument with the reason.
[[nodiscard]] Result<void> check_worker_name(std::string_view worker);
[[nodiscard]] Result<void> check_prefix(std::string_view prefix);

[[nodiscard]] std::string escape_name(std::string_view name);

struct RedisKeys {
  std::string prefix;
  [[nodiscard]] std::string to(std::string_view worker) const { return prefix + ":to:" + escape_name(worker); }
  [[nodiscard]] std::string from(std::string_view worker) const { return prefix + ":from:" + escape_name(worker); }
  [[nodiscard]] std::string join() const { return prefix + ":join"; }
  [[nodiscard]] std::string workers() const { return prefix + ":workers"; }
  [[nodiscard]] std::string wake() const { return prefix + ":wake"; }
};

// The arguments of ACL SETUSER after the user's name that give a worker what it needs and nothing else: without a
// password (add ">secret"). It can then neither write its own inbox, nor read another's, nor send in another's name.
// REQUIRES: check_worker_name() and check_prefix() are ok.
[[nodiscard]] std::vector<std::string> worker_acl_rules(std::string_view prefix, std::string_view worker);
// The same for the host of a fleet.
[[nodiscard]] std::vector<std::string> host_acl_rules(std::string_view prefix);

}  // namespace rota::bus
