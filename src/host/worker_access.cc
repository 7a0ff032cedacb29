#include "host/worker_access.h"

#include "host/http_tokens.h"

namespace rota::host {

bool matches_pattern(std::string_view pattern, std::string_view name) {
  // Greedy from the last '*' on; goes back there, never further: linear in the product of both lengths at most.
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string identity_id(std::string_view worker) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const Sha256 digest = sha256(worker);
  std::string id = "w.";
  for (std::size_t i = 0; i < 12; ++i) {
    id.push_back(kDigits[digest[i] >> 4]);
    id.push_back(kDigits[digest[i] & 15]);
  }
  return id;
}

}  // namespace rota::host
