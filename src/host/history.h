// History: how many tasks ran, and how many waited for which reason, at moments all over the log (W-1).
//
//   ledger ──► a brain of its own, which applies the records and stops at every `stride`-th one ──► Point ──► kept
//
// The state has the present only, and a replay of the log costs time, so points are kept: a reader that asks again pays
// for the records since the last time. The stride is a power of two and doubles as the log grows, so that the points
// stay the same ones. Nothing is computed unless somebody asks; the brain that decides is never asked.
//
// Bounds: kMostKept points, kMostRecords records to begin with (otherwise it begins at the last snapshot),
// kMostExplained explanations per point.
//
// Thread safety: none; callers hold computing().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/brain.h"
#include "host/log_tail.h"
#include "ledger/ledger.h"
#include "rota/fiber/sync.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::host {

class History {
 public:
  static constexpr std::size_t kMostKept = 8192;
  static constexpr std::uint64_t kMostRecords = 300'000;
  static constexpr std::size_t kMostExplained = 16;
  static constexpr std::size_t kMostLanes = 200;

  // The state after one record. `values` are triples: lane, kind (a position in kinds()), tasks.
  struct Point {
    std::uint64_t index = 0;
    std::int64_t wall_ns = 0;
    std::vector<std::int64_t> values{};
  };
  struct Query {
    model::WorkflowId workflow{};  // None: all workflows, in one lane. Otherwise a lane per stage.
    std::uint64_t first = 1;
    std::uint64_t last = 0;
    std::size_t most = 200;  // Points, about.
  };

  // The reasons of fleet/explain.h for which a task waits, then "running" and "other".
  [[nodiscard]] static const std::vector<std::string>& kinds();
  // Held by the caller of read(); it waits for others.
  [[nodiscard]] fiber::Mutex& computing() { return computing_; }
  // The points, in order. Those before the place where the log, or what is read of it, begins are left out.
  Result<std::vector<Point>> read(LogTail& tail, ledger::Ledger& ledger, const Query& query);

 private:
  // One for the whole fleet and one for a workflow, so that two views that are open at the same time do not take turns.
  struct Reader {
    fleet::Brain brain{};
    std::uint64_t index = 0;  // The last record that is applied.
    bool begun = false;
  };
  Result<void> begin(LogTail& tail, ledger::Ledger& ledger, std::uint64_t last, Reader& reader);
  static Result<void> advance(LogTail& tail, std::uint64_t index, Reader& reader);

  fiber::Mutex computing_;
  std::array<Reader, 2> readers_;
  std::map<std::pair<model::WorkflowId, std::uint64_t>, Point> known_;
};

}  // namespace rota::host
