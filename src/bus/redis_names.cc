#include "bus/redis_names.h"

#include <algorithm>

#include "base/json_text.h"

namespace rota::bus {

namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

Result<void> check_worker_name(std::string_view worker) {
  if (worker.empty()) return Error{ErrorCode::kInvalidArgument, "a worker's name must not be empty"};
  if (worker.size() > kMostNameBytes) {
    return Error{ErrorCode::kInvalidArgument, "a worker's name has at most " + std::to_string(kMostNameBytes) +
                                                  " bytes; '" + printable(worker, 40) + "' has " +
                                                  std::to_string(worker.size())};
  }
  return {};
}

Result<void> check_prefix(std::string_view prefix) {
  if (!prefix.empty() && prefix.size() <= kMostPrefixBytes && std::all_of(prefix.begin(), prefix.end(), is_plain)) {
    return {};
  }
  return Error{ErrorCode::kInvalidArgument, "the prefix of the keys in Redis is '" + printable(prefix, 40) +
                                                "'; it must consist of 1 to " + std::to_string(kMostPrefixBytes) +
                                                " of the characters A-Z a-z 0-9 . _ -"};
}

std::string escape_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : name) {
    if (is_plain(c)) {
      escaped.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped.push_back('%');
      escaped.push_back(kDigits[byte >> 4]);
      escaped.push_back(kDigits[byte & 15]);
    }
  }
  return escaped;
}

std::vector<std::string> worker_acl_rules(std::string_view prefix, std::string_view worker) {
  const RedisKeys keys{std::string(prefix)};
  return {"reset", "on", "%R~" + keys.to(worker), "%W~" + keys.from(worker), "resetchannels", "-@all", "+xread",
          "+xadd", "+ping", "+auth", "+select",
          // A selector: LPUSH is allowed for this key only, and XADD is not.
          "(%W~" + keys.join() + " +lpush)"};
}

std::vector<std::string> host_acl_rules(std::string_view prefix) {
  return {"reset",         "on",      "~" + std::string(prefix) + ":*",
          "resetchannels", "-@all",   "+xread",
          "+xadd",         "+xtrim",  "+del",
          "+blpop",        "+sadd",   "+srem",
          "+smembers",     "+exists", "+ping",
          "+auth",         "+select"};
}

}  // namespace rota::bus
