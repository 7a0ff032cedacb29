// Density: how many tasks were submitted and how many workers were active, over time (H-3).
//
// It is told of every durable record and keeps one number per bucket of time. write() replaces the file atomically; its
// form is {"bucket_sec": 60, "submissions": [[bucket, tasks]...], "active_workers": [[bucket, workers]...]}, where
// `bucket` is the start in seconds since the epoch. Buckets in which nothing changed are left out: the number of
// workers is that of the bucket before. Bound: the newest kMostBuckets buckets.
//
// Thread safety: none; the caller uses it from one task at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::host {

class Density {
 public:
  static constexpr std::size_t kMostBuckets = 100'000;

  explicit Density(std::int64_t bucket_sec) : bucket_ns_(bucket_sec * 1'000'000'000) {}

  // The workers that are active at the start.
  void begin(const fleet::State& state);
  void see(const fleet::Record& record);
  [[nodiscard]] std::string to_json() const;
  // IoError.
  Result<void> write(const std::string& path) const;
  // Whether something changed since the last write().
  [[nodiscard]] bool is_changed() const { return changed_; }

 private:
  void count_workers(std::int64_t wall_ns);

  const std::int64_t bucket_ns_;
  std::map<std::int64_t, std::uint64_t> submissions_;  // Tasks, by the number of the bucket.
  std::map<std::int64_t, std::size_t> active_;         // The largest number of workers in the bucket.
  std::set<model::WorkerId> workers_;                  // Active now.
  mutable bool changed_ = false;
};

}  // namespace rota::host
