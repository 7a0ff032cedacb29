// Which assigned task may start, and which message is news: the worker's memory, without tasks or time.
//
// Order is strict: only the first in line is looked at, so that a large task is never overtaken for ever by small ones.
//
// Invariants (check_invariants()):
//   (1) free_ is the hardware less the demands of all that run
//   (2) a task has one state; waiting_ and running_ count those, and each that waits is in line_ once with its ticket
// Every operation is O(1), amortised.
// Thread safety: none; the engine owns it under its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bus/message.h"
#include "rota/worker.h"

namespace rota::worker {

struct Demand {
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t gpu_mask = 0;
};

class Intake {
 public:
  static constexpr std::size_t kRemembered = 65'536;  // Tasks that have ended, for messages that come twice.

  Intake(const Hardware& hardware, std::size_t waiting_most);

  // Notes the term. False: an older leader's message, to be ignored.
  bool hear(std::uint64_t term);

  enum class Verdict : std::uint8_t {
    kQueued,
    kDuplicate,   // This attempt is known, whatever has become of it.
    kStale,       // A newer attempt is known.
    kImpossible,  // It asks for more than there is. Remembered as ended.
    kFull,        // Too many wait. Remembered as ended.
  };
  Verdict offer(std::uint64_t task, std::uint32_t attempt, const Demand& demand);

  // The first in line, if its demand fits what is free; it runs from now on.
  std::optional<std::uint64_t> start_next();
  // This one runs from now on, if it waits and fits: it has the place of one that ended. False: it does not.
  bool start(std::uint64_t task);
  // The first `most` in line.
  [[nodiscard]] std::vector<std::uint64_t> first_in_line(std::size_t most) const;
  // It runs no more, or was waiting and shall not run.
  void end(std::uint64_t task);

  [[nodiscard]] bool is_waiting(std::uint64_t task) const;
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] std::size_t running() const { return running_; }
  [[nodiscard]] const Hardware& hardware() const { return hardware_; }
  void check_invariants() const;

 private:
  enum class State : std::uint8_t { kWaiting, kRunning, kEnded };
  struct Known {
    std::uint32_t attempt = 0;
    State state = State::kWaiting;
    std::uint64_t ticket = 0;  // Of its last change: what is in a queue with another ticket is out of date.
    Demand demand{};
  };
  struct Ticket {
    std::uint64_t task = 0;
    std::uint64_t ticket = 0;
  };
  void set_running(Known* known);
  [[nodiscard]] bool fits(const Demand& demand, const Demand& within) const;
  void set_ended(std::uint64_t task, Known* known);

  const Hardware hardware_;
  const Demand all_;
  const std::size_t waiting_most_;
  std::uint64_t term_ = 0;
  std::uint64_t last_ticket_ = 0;
  Demand free_;
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
  std::unordered_map<std::uint64_t, Known> known_;
  std::deque<Ticket> line_;   // Those that wait, in order; and some that do no more.
  std::deque<Ticket> ended_;  // In the order of their end; the oldest is forgotten first.
};

}  // namespace rota::worker
