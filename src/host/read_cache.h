// ReadCache: the latest answers of reads that are expensive and that many pages ask for, such as the overview of a
// fleet with 100,000 tasks. A client says how old an answer may be (`fresh_ms`); without that it always gets a new one.
//
// Answers are computed one at a time, so that any number of open pages costs the host one thread worker at most, and
// one answer for each `fresh_ms`.
//
// Bounds: kMost answers; the oldest is dropped. Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/sync.h"
#include "rota/fiber/sync.h"

namespace rota::host {

class ReadCache {
 public:
  static constexpr std::size_t kMost = 32;

  struct Answer {
    std::string body{};
    std::uint64_t index = 0;
    std::int64_t made_ns = 0;
  };

  // The answer to this request, if it was made at or after that time.
  [[nodiscard]] std::optional<Answer> find(const std::string& target, std::int64_t since_ns) {
    const sync::MutexLock lock(mutex_);
    const auto known = answers_.find(target);
    if (known == answers_.end() || known->second.made_ns < since_ns) return std::nullopt;
    return known->second;
  }
  void keep(const std::string& target, Answer answer) {
    const sync::MutexLock lock(mutex_);
    answers_.insert_or_assign(target, std::move(answer));
    if (answers_.size() <= kMost) return;
    auto oldest = answers_.begin();
    for (auto each = answers_.begin(); each != answers_.end(); ++each) {
      if (each->second.made_ns < oldest->second.made_ns) oldest = each;
    }
    answers_.erase(oldest);
  }
  // Held while an answer is computed.
  [[nodiscard]] fiber::Mutex& computing() { return computing_; }

 private:
  fiber::Mutex computing_;
  sync::Mutex mutex_;
  std::map<std::string, Answer> answers_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::host
