#include "host/silence.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace rota::host {

void SilenceWatch::add(const std::string& worker, std::int64_t now_ns) {
  if (by_name_.contains(worker)) return heard(worker, now_ns);
  entries_.push_back({worker, now_ns});
  by_name_.emplace(entries_.back().worker, std::prev(entries_.end()));
}

void SilenceWatch::remove(const std::string& worker) {
  const auto found = by_name_.find(worker);
  if (found == by_name_.end()) return;
  const auto entry = found->second;
  by_name_.erase(found);
  entries_.erase(entry);
}

void SilenceWatch::heard(const std::string& worker, std::int64_t now_ns) {
  const auto found = by_name_.find(worker);
  if (found == by_name_.end()) return;
  found->second->heard_ns = now_ns;
  entries_.splice(entries_.end(), entries_, found->second);
}

std::int64_t SilenceWatch::next_due_ns(std::int64_t ttl_ns) const {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  if (entries_.empty()) return kNever;
  const std::int64_t from = std::max(entries_.front().heard_ns, since_ns_);
  return from > kNever - ttl_ns ? kNever : from + ttl_ns;
}

std::optional<std::string> SilenceWatch::take_silent(std::int64_t now_ns, std::int64_t ttl_ns) {
  if (next_due_ns(ttl_ns) > now_ns) return std::nullopt;
  std::string worker = entries_.front().worker;
  remove(worker);
  return worker;
}

}  // namespace rota::host
