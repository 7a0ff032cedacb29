// AttemptLog: the attempts of every task, from the records of the log. The state has only the latest attempt; a person
// wants to see the earlier ones, and how each ended.
//
// Bounds: kMost attempts; then those of the oldest workflow are dropped. A workflow that is forgotten is dropped too.
//
// Thread safety: all functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/sync.h"
#include "fleet/record.h"
#include "rota/model/ids.h"

namespace rota::host {

class AttemptLog {
 public:
  static constexpr std::size_t kMost = 1'000'000;
  static constexpr std::size_t kMostMessage = 1000;  // Bytes of a message that are kept.

  struct Attempt {
    model::AttemptNumber number{};
    model::WorkerId worker{};
    std::int64_t assigned_ns = 0;  // Times of the records,
    std::int64_t started_ns = 0;   // except for this one, which the worker reported with the end; 0: it did not.
    std::int64_t ended_ns = 0;
    std::string end{};  // "succeeded", "cancelled", or the reason of the failure or requeue; empty: not yet.
    std::string message{};
    std::uint64_t assigned_in = 0;  // Records.
    std::uint64_t ended_in = 0;
  };

  // The records of the log in order.
  void see(const fleet::Record& record);
  // The attempts of the task as they were after record `at`, in order.
  [[nodiscard]] std::vector<Attempt> of(model::TaskId task, std::uint64_t at);

 private:
  using Tasks = std::map<std::uint32_t, std::vector<Attempt>>;

  void assigned(const fleet::Record& record, model::TaskId task, model::AttemptNumber number, model::WorkerId worker)
      ROTA_REQUIRES(mutex_);
  void ended(const fleet::Record& record, model::TaskId task, std::string_view end, std::string_view message)
      ROTA_REQUIRES(mutex_);
  void forget(model::WorkflowId workflow) ROTA_REQUIRES(mutex_);

  sync::Mutex mutex_;
  std::map<model::WorkflowId, Tasks> workflows_ ROTA_GUARDED_BY(mutex_);
  std::size_t count_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rota::host
