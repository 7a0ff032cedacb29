// UsageMeter: what the workers of a fleet cost, and how much energy and processor time they use, over time (H-2).
//
//   meter.begin(state);          // Counts from here on, with the workers that there are.
//   meter.see(record, state);    // After each record; the cost depends on the number of its events.
//   meter.totals()               // Up to the last record; totals(now_ns): as if nothing changed until then.
//
// A worker counts as busy while it runs a task, and as up while it is busy, or reachable and enabled: what is disabled
// and idle costs nothing.
//
// Pure. Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/model/ids.h"

namespace rota::fleet {

struct Usage {
  std::int64_t cost_busy_microdollars = 0;
  std::int64_t cost_up_microdollars = 0;
  std::int64_t energy_busy_millijoules = 0;  // Of workers that give their power (power_watts), at that power.
  std::int64_t energy_up_millijoules = 0;
  std::int64_t utilisation_millionths = 0;  // Core-seconds that tasks held, divided by those of workers that were up.
  bool operator==(const Usage&) const = default;
};

class UsageMeter {
 public:
  // Everything before this counts for nothing.
  void begin() { counting_ = true; }
  void begin(const State& state);
  void see(const Record& record, const State& state);
  [[nodiscard]] Usage totals() const { return usage_of(sums_); }
  [[nodiscard]] Usage totals(std::int64_t now_ns) const;

  __extension__ using Wide = __int128;  // Nanoseconds times thousandths of cores, over years.

  // Rates, and their integrals over time.
  template <class Number>
  struct Each {
    Number cpu_used = 0;
    Number cpu_up = 0;
    Number cost_busy = 0;
    Number cost_up = 0;
    Number power_busy = 0;  // In milliwatts.
    Number power_up = 0;
    // Adds `times` times the other one.
    template <class Other>
    void add(const Each<Other>& other, Number times) {
      cpu_used += times * other.cpu_used;
      cpu_up += times * other.cpu_up;
      cost_busy += times * other.cost_busy;
      cost_up += times * other.cost_up;
      power_busy += times * other.power_busy;
      power_up += times * other.power_up;
    }
  };
  using Rates = Each<std::int64_t>;
  using Sums = Each<Wide>;

  // For totals that may be wanted later: a copy costs no division.
  [[nodiscard]] const Sums& sums() const { return sums_; }
  [[nodiscard]] static Usage usage_of(const Sums& sums);

 private:
  void touch(WorkerId id, const State& state);
  void touch_worker_of(TaskId id, const State& state);

  std::vector<Rates> workers_;  // By id.
  Rates rates_;
  Sums sums_;
  bool counting_ = false;
  std::int64_t now_ns_ = 0;
};

}  // namespace rota::fleet
