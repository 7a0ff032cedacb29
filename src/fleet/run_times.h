// RunTimes: how long tasks ran, by what they ran (B-25). The brain learns it from the reports in the log; the queues of
// workers and the critical path use it.
//
// A key stands for one task across runs (its workflow's name, its stage and item), for a type of work, or for a kind of
// worker. Each key has a mean that follows the latest samples. All arithmetic is in integers.
//
// Bound: at most two generations of kMost keys. When the younger one is full, it becomes the older one, and keys that
// were used in neither are forgotten.
//
// It is data: a snapshot contains it and the hash of the state covers it, because what was learned cannot be derived
// from what the state still has.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "model/workflow_spec.h"
#include "rota/model/fields.h"

namespace rota::fleet {

using RunKey = std::uint64_t;

// The same task in any run of the workflow.
[[nodiscard]] RunKey key_of_task(std::string_view workflow, std::string_view stage, std::string_view item);
// Tasks of one type. Programs without a type of their own ("shell") are of one type if they run the same program.
[[nodiscard]] RunKey key_of_work(const model::TaskSpec& spec);
// How slow a kind of workers is, in thousandths of the mean.
[[nodiscard]] RunKey key_of_kind(std::uint64_t salt);

struct RunTime {
  RunKey key = 0;
  std::int64_t mean = 0;
  std::uint32_t samples = 0;
  ROTA_FIELDS(key, mean, samples)
};

class RunTimes {
 public:
  static constexpr std::size_t kMost = 65'536;

  [[nodiscard]] std::optional<std::int64_t> find(RunKey key) const;
  // Adds a sample: a mean of the first 16, then one that forgets the oldest.
  void learn(RunKey key, std::int64_t sample);
  [[nodiscard]] bool empty() const { return young_.empty() && old_.empty(); }
  [[nodiscard]] Hash128 hash() const;

  struct Image {
    std::vector<RunTime> young{};
    std::vector<RunTime> old{};
    ROTA_FIELDS(young, old)
  };
  [[nodiscard]] Image image() const;
  static RunTimes from(const Image& image);

 private:
  using Map = std::map<RunKey, RunTime>;
  void age();
  Map young_;
  Map old_;
  SetHash set_;
};

}  // namespace rota::fleet
