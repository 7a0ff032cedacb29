// Clocks as objects that are passed in, so that every loop that waits can run under a virtual clock.
//
// There are two kinds of time with incompatible types: an Instant is monotonic and meaningful only for its clock; a
// WallTime is calendar time, may jump, and serves only people and records. No decision depends on wall time.
//
//   SystemClock   the machine's clocks; sleep_until() blocks the calling thread
//   ManualClock   stands still until it is advanced; sleep_until() blocks the calling thread until then
//   (fiber/)      the runtime's clock, real or virtual; sleep_until() parks the calling fiber
//
// Thread safety: every method of every clock may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "rota/result.h"

namespace rota {

using Duration = std::chrono::nanoseconds;

// Only names a time line; a Clock tells the current time on it.
struct MonotonicTime {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<MonotonicTime, Duration>;
  static constexpr bool is_steady = true;
};

using Instant = MonotonicTime::time_point;
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock();

  // Never decreases.
  [[nodiscard]] virtual Instant now() const noexcept = 0;
  // May jump in either direction.
  [[nodiscard]] virtual WallTime wall() const noexcept = 0;
  // Waits until now() >= deadline; returns at once if that is already true. An error means that the wait ended early:
  // Cancelled if the waiting fiber was cancelled, Closed if the clock will not advance any more.
  virtual Result<void> sleep_until(Instant deadline) = 0;

  Result<void> sleep_for(Duration duration) { return sleep_until(saturating_add(now(), duration)); }

  // `instant + duration`, or the largest Instant where that would overflow.
  [[nodiscard]] static constexpr Instant saturating_add(Instant instant, Duration duration) noexcept {
    if (duration > Duration::zero() && instant > Instant::max() - duration) return Instant::max();
    if (duration < Duration::zero() && instant < Instant::min() - duration) return Instant::min();
    return instant + duration;
  }
};

// CLOCK_MONOTONIC and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override;
  [[nodiscard]] WallTime wall() const noexcept override;
  Result<void> sleep_until(Instant deadline) override;
};

// The SystemClock of the process.
[[nodiscard]] SystemClock& system_clock() noexcept;

// A clock for tests. It starts at `start` and moves only by advance(); wall time moves along and can be set separately.
//
// advance() returns after every sleeper whose deadline has passed has left the clock (it no longer counts in
// sleepers()), so a test that advances twice never overtakes a sleeper.
class ManualClock final : public Clock {
 public:
  static constexpr Instant kDefaultStart{std::chrono::seconds(1)};
  // 2024-01-01T00:00:00Z, so that wall times in golden output are readable.
  static constexpr WallTime kDefaultWall{std::chrono::seconds(1704067200)};

  explicit ManualClock(Instant start = kDefaultStart, WallTime wall = kDefaultWall);
  // REQUIRES: nobody sleeps; call close() first if somebody may.
  ~ManualClock() override;

  [[nodiscard]] Instant now() const noexcept override;
  [[nodiscard]] WallTime wall() const noexcept override;
  Result<void> sleep_until(Instant deadline) override;

  // REQUIRES: duration >= 0.
  void advance(Duration duration);
  // Does nothing if `instant` has already passed.
  void advance_to(Instant instant);
  // Sets only the wall time, as an administrator would.
  void set_wall(WallTime wall);
  // Ends the sleep of every sleeper, and of every later one, with Closed.
  void close();

  // The number of sleepers, and the earliest time for which one of them waits.
  [[nodiscard]] std::size_t sleepers() const;
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  // Blocks the calling thread until at least `count` callers sleep. A test uses it to wait until the code under test
  // has gone to sleep. Independent of real time.
  void wait_for_sleepers(std::size_t count) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota
