// SystemClock and ManualClock. See include/rota/clock.h.
#include "rota/clock.h"

#include <time.h>

#include <cerrno>
#include <set>

#include "base/sync.h"

namespace rota {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

Duration read_clock(clockid_t id) noexcept {
  timespec value{};
  ROTA_ASSERT(::clock_gettime(id, &value) == 0, "clock ", id);
  return Duration(static_cast<std::int64_t>(value.tv_sec) * kNanosPerSecond + value.tv_nsec);
}

}  // namespace

Clock::~Clock() = default;

Instant SystemClock::now() const noexcept { return Instant(read_clock(CLOCK_MONOTONIC)); }

WallTime SystemClock::wall() const noexcept { return WallTime(read_clock(CLOCK_REALTIME)); }

Result<void> SystemClock::sleep_until(Instant deadline) {
  if (deadline <= now()) return {};  // Also keeps a negative timespec from the kernel.
  const std::int64_t nanos = deadline.time_since_epoch().count();
  timespec until{};
  until.tv_sec = static_cast<time_t>(nanos / kNanosPerSecond);
  until.tv_nsec = static_cast<long>(nanos % kNanosPerSecond);
  int status = 0;
  do {
    status = ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  } while (status == EINTR);
  ROTA_ASSERT(status == 0, "clock_nanosleep returned ", status);
  return {};
}

SystemClock& system_clock() noexcept {
  // Never destroyed, so that threads may read it while the process ends.
  static SystemClock* const clock = new SystemClock();
  return *clock;
}

// Invariants:
//   (1) now never decreases
//   (2) deadlines has one entry for each caller inside sleep_until that has not been released
struct ManualClock::State {
  mutable sync::Mutex mutex;
  mutable sync::CondVar moved;    // now or closed changed
  mutable sync::CondVar changed;  // deadlines changed
  Instant now ROTA_GUARDED_BY(mutex);
  Duration wall_offset ROTA_GUARDED_BY(mutex);  // wall = now + offset
  bool closed ROTA_GUARDED_BY(mutex) = false;
  std::multiset<Instant> deadlines ROTA_GUARDED_BY(mutex);

  // Waits until every sleeper that is due has left.
  void release_due() ROTA_REQUIRES(mutex) {
    moved.notify_all();
    while (!deadlines.empty() && (closed || *deadlines.begin() <= now)) changed.wait(mutex);
  }
};

ManualClock::ManualClock(Instant start, WallTime wall) : state_(std::make_unique<State>()) {
  const sync::MutexLock lock(state_->mutex);
  state_->now = start;
  state_->wall_offset = wall.time_since_epoch() - start.time_since_epoch();
}

ManualClock::~ManualClock() { ROTA_ASSERT(sleepers() == 0, "a ManualClock ends with sleepers=", sleepers()); }

Instant ManualClock::now() const noexcept {
  const sync::MutexLock lock(state_->mutex);
  return state_->now;
}

WallTime ManualClock::wall() const noexcept {
  const sync::MutexLock lock(state_->mutex);
  return WallTime(state_->now.time_since_epoch() + state_->wall_offset);
}

Result<void> ManualClock::sleep_until(Instant deadline) {
  State& s = *state_;
  const sync::MutexLock lock(s.mutex);
  if (s.closed) return ErrorCode::kClosed;
  if (s.now >= deadline) return {};
  const auto entry = s.deadlines.insert(deadline);
  s.changed.notify_all();
  while (!s.closed && s.now < deadline) s.moved.wait(s.mutex);
  s.deadlines.erase(entry);
  s.changed.notify_all();
  if (s.now < deadline) return ErrorCode::kClosed;
  return {};
}

void ManualClock::advance(Duration duration) {
  ROTA_ASSERT(duration >= Duration::zero(), "advance by ", duration.count(), " ns");
  State& s = *state_;
  const sync::MutexLock lock(s.mutex);
  s.now = saturating_add(s.now, duration);
  s.release_due();
}

void ManualClock::advance_to(Instant instant) {
  State& s = *state_;
  const sync::MutexLock lock(s.mutex);
  if (instant > s.now) s.now = instant;
  s.release_due();
}

void ManualClock::set_wall(WallTime wall) {
  const sync::MutexLock lock(state_->mutex);
  state_->wall_offset = wall.time_since_epoch() - state_->now.time_since_epoch();
}

void ManualClock::close() {
  State& s = *state_;
  const sync::MutexLock lock(s.mutex);
  s.closed = true;
  s.release_due();
}

std::size_t ManualClock::sleepers() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->deadlines.size();
}

std::optional<Instant> ManualClock::next_deadline() const {
  const sync::MutexLock lock(state_->mutex);
  if (state_->deadlines.empty()) return std::nullopt;
  return *state_->deadlines.begin();
}

void ManualClock::wait_for_sleepers(std::size_t count) const {
  State& s = *state_;
  const sync::MutexLock lock(s.mutex);
  while (s.deadlines.size() < count) s.changed.wait(s.mutex);
}

}  // namespace rota
