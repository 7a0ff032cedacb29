// LineReports: passes on what a program says by the line protocol (lines.h), and bounds it: a program that writes lines
// without a pause costs its worker, the bus and the log no more than these rates.
//
//   progress     at most one per Executor::kProgressEvery; the last value always arrives
//   checkpoint   at most one per kCheckpointEvery, because each is a durable record; the last one always arrives
//   log, cache   together at most kLinesPerSecond; the number of others is reported
//   bad lines    the first kBadLinesReported
//
// Thread safety: none; one task owns it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rota/result.h"
#include "worker/executor.h"
#include "worker/lines.h"

namespace rota::worker {

class LineReports {
 public:
  static constexpr std::chrono::milliseconds kCheckpointEvery{200};
  static constexpr std::uint32_t kLinesPerSecond = 100;
  static constexpr std::uint32_t kBadLinesReported = 10;

  // REQUIRES: `events` outlives it.
  explicit LineReports(ProgramEvents& events) : events_(events) {}

  void take(Result<Line> line, std::chrono::nanoseconds now);
  // When send_due() has something to do; max(): never.
  [[nodiscard]] std::chrono::nanoseconds due() const;
  void send_due(std::chrono::nanoseconds now);
  // The program has ended: sends what is left.
  void finish();

 private:
  // A value of which only the latest counts, sent at most once per interval.
  template <class T>
  struct Latest {
    std::optional<T> value{};
    std::chrono::nanoseconds next_at{0};  // It may be sent from then on.
  };
  struct Progress {
    std::uint32_t permille = 0;
    std::string text{};
  };
  // Whether one more line may be passed on in this second.
  bool admit(std::chrono::nanoseconds now);
  void tell_dropped();

  ProgramEvents& events_;
  Latest<Progress> progress_{};
  Latest<std::string> checkpoint_{};
  std::chrono::nanoseconds second_ends_{0};
  std::uint32_t lines_ = 0;    // In this second.
  std::uint64_t dropped_ = 0;  // Not reported yet.
  std::uint32_t bad_lines_ = 0;
};

}  // namespace rota::worker
