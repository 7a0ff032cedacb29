#include "worker/intake.h"

#include "rota/assert.h"

namespace rota::worker {

namespace {
Demand all_of(const Hardware& hardware) {
  return {hardware.cpu_millis, hardware.memory_bytes,
          hardware.gpus >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << hardware.gpus) - 1};
}
}  // namespace

Intake::Intake(const Hardware& hardware, std::size_t waiting_most)
    : hardware_(hardware), all_(all_of(hardware)), waiting_most_(waiting_most), free_(all_) {}

bool Intake::hear(std::uint64_t term) {
  if (term < term_) return false;
  term_ = term;
  return true;
}

bool Intake::fits(const Demand& demand, const Demand& within) const {
  return demand.cpu_millis <= within.cpu_millis && demand.memory_bytes <= within.memory_bytes &&
         (demand.gpu_mask & ~within.gpu_mask) == 0;
}

Intake::Verdict Intake::offer(std::uint64_t task, std::uint32_t attempt, const Demand& demand) {
  const auto [found, fresh] = known_.try_emplace(task);
  Known& known = found->second;
  if (!fresh) {
    if (known.attempt == attempt) return Verdict::kDuplicate;
    if (known.attempt > attempt) return Verdict::kStale;
    // The engine ends an older attempt before it offers a newer one.
    ROTA_ASSERT(known.state == State::kEnded, "an older attempt is still there", task);
  }
  known.attempt = attempt;
  known.demand = demand;
  const bool possible = fits(demand, all_);
  if (!possible || waiting_ >= waiting_most_) {
    set_ended(task, &known);
    return possible ? Verdict::kFull : Verdict::kImpossible;
  }
  known.state = State::kWaiting;
  known.ticket = ++last_ticket_;
  line_.push_back({task, known.ticket});
  ++waiting_;
  return Verdict::kQueued;
}

std::optional<std::uint64_t> Intake::start_next() {
  for (; !line_.empty(); line_.pop_front()) {
    const Ticket first = line_.front();
    const auto found = known_.find(first.task);
    if (found == known_.end() || found->second.ticket != first.ticket) continue;  // It waits no more.
    Known& known = found->second;
    if (!fits(known.demand, free_)) return std::nullopt;
    line_.pop_front();
    set_running(&known);
    return first.task;
  }
  return std::nullopt;
}

bool Intake::start(std::uint64_t task) {
  const auto found = known_.find(task);
  if (found == known_.end() || found->second.state != State::kWaiting || !fits(found->second.demand, free_)) {
    return false;
  }
  set_running(&found->second);  // Its place in line has another ticket now.
  return true;
}

void Intake::set_running(Known* known) {
  known->state = State::kRunning;
  known->ticket = ++last_ticket_;
  --waiting_;
  ++running_;
  free_.cpu_millis -= known->demand.cpu_millis;
  free_.memory_bytes -= known->demand.memory_bytes;
  free_.gpu_mask &= ~known->demand.gpu_mask;
}

std::vector<std::uint64_t> Intake::first_in_line(std::size_t most) const {
  std::vector<std::uint64_t> tasks;
  for (const Ticket& place : line_) {
    if (tasks.size() >= most) break;
    const auto found = known_.find(place.task);
    if (found != known_.end() && found->second.ticket == place.ticket) tasks.push_back(place.task);
  }
  return tasks;
}

void Intake::end(std::uint64_t task) {
  const auto found = known_.find(task);
  if (found == known_.end() || found->second.state == State::kEnded) return;
  Known& known = found->second;
  if (known.state == State::kRunning) {
    --running_;
    free_.cpu_millis += known.demand.cpu_millis;
    free_.memory_bytes += known.demand.memory_bytes;
    free_.gpu_mask |= known.demand.gpu_mask;
  } else {
    --waiting_;
  }
  set_ended(task, &known);
}

void Intake::set_ended(std::uint64_t task, Known* known) {
  known->state = State::kEnded;
  known->ticket = ++last_ticket_;
  ended_.push_back({task, known->ticket});
  if (ended_.size() <= kRemembered) return;
  const Ticket oldest = ended_.front();
  ended_.pop_front();
  // Not if something has become of it since.
  if (const auto found = known_.find(oldest.task); found != known_.end() && found->second.ticket == oldest.ticket) {
    known_.erase(found);
  }
}

bool Intake::is_waiting(std::uint64_t task) const {
  const auto found = known_.find(task);
  return found != known_.end() && found->second.state == State::kWaiting;
}

void Intake::check_invariants() const {
  Demand used;
  std::size_t waiting = 0;
  std::size_t running = 0;
  for (const auto& [task, known] : known_) {
    if (known.state == State::kWaiting) ++waiting;
    if (known.state != State::kRunning) continue;
    ++running;
    used.cpu_millis += known.demand.cpu_millis;
    used.memory_bytes += known.demand.memory_bytes;
    ROTA_ASSERT((used.gpu_mask & known.demand.gpu_mask) == 0, "a device has two tasks", task);
    used.gpu_mask |= known.demand.gpu_mask;
  }
  ROTA_ASSERT(waiting == waiting_ && running == running_, "the counts are wrong");
  ROTA_ASSERT(used.cpu_millis + free_.cpu_millis == all_.cpu_millis, "processors do not add up");
  ROTA_ASSERT(used.memory_bytes + free_.memory_bytes == all_.memory_bytes, "memory does not add up");
  ROTA_ASSERT((used.gpu_mask | free_.gpu_mask) == all_.gpu_mask, "devices do not add up");
  ROTA_ASSERT((used.gpu_mask & free_.gpu_mask) == 0, "a device is free and used");
}

}  // namespace rota::worker
