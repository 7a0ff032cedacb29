// Time as something that is handed in, so that every loop that waits can run under a virtual clock.
//
// Two kinds of time, two types that do not mix: an Instant is monotonic and means nothing outside its clock; a
// WallTime is the calendar's, may jump, and is for people and records only. Nothing decides by wall time.
//
//   SystemClock   the machine's clocks; sleep_until() blocks the calling thread
//   ManualClock   stands still until advanced; sleep_until() blocks the calling thread until someone advances it
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

// Only the name of a time line; a Clock says what time it is on it.
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

  // Never goes back.
  [[nodiscard]] virtual Instant now() const noexcept = 0;
  // May jump in either direction.
  [[nodiscard]] virtual WallTime wall() const noexcept = 0;
  // Waits until now() >= deadline; at once if that is so already. An error says that the wait ended early: Cancelled
  // when the waiting fiber was cancelled, Closed when the clock will not advance any more.
  virtual Result<void> sleep_until(Instant deadline) = 0;

  Result<void> sleep_for(Duration duration) { return sleep_until(saturating_add(now(), duration)); }

  // `instant + duration`, or the far end of time where that would overflow.
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

// The process's one SystemClock.
[[nodiscard]] SystemClock& system_clock() noexcept;

// A clock for tests. It starts at `start` and moves only by advance(); wall time moves along and can be set apart.
//
// advance() returns after every sleeper whose deadline has come has left the clock (it no longer counts in sleepers()),
// so that a test that advances twice never runs past a sleeper.
class ManualClock final : public Clock {
 public:
  static constexpr Instant kDefaultStart{std::chrono::seconds(1)};
  // 2024-01-01T00:00:00Z: wall times in golden output are readable.
  static constexpr WallTime kDefaultWall{std::chrono::seconds(1704067200)};

  explicit ManualClock(Instant start = kDefaultStart, WallTime wall = kDefaultWall);
  // REQUIRES: nobody sleeps; close() first if somebody may.
  ~ManualClock() override;

  [[nodiscard]] Instant now() const noexcept override;
  [[nodiscard]] WallTime wall() const noexcept override;
  Result<void> sleep_until(Instant deadline) override;

  // REQUIRES: duration >= 0.
  void advance(Duration duration);
  // Does nothing if `instant` has passed already.
  void advance_to(Instant instant);
  // Sets wall time alone, as an administrator would.
  void set_wall(WallTime wall);
  // Lets every sleeper go with Closed, and every later one.
  void close();

  // How many callers are waiting, and the earliest time one of them waits for.
  [[nodiscard]] std::size_t sleepers() const;
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  // Blocks the calling thread until at least `count` callers wait: how a test knows that the code under test has come
  // to rest. Real time does not enter.
  void wait_for_sleepers(std::size_t count) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota
