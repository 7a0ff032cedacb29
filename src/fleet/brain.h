// Brain: the state and its interface. It takes one command at a time and returns the record to be made durable.
//
//   Brain brain(term);
//   Result<Record> record = brain.execute(SubmitWorkflow{...}, wall_ns);
//   ... make the record durable, then release its effects ...
//
// Recovery: restore(snapshot), then apply() each record after it. Verification: verify() decides each command again and
// compares.
//
// Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fleet/command.h"
#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/result.h"

namespace rota::fleet {

class Brain {
 public:
  explicit Brain(Term term = Term(1)) : term_(term) {}

  // Decides and applies. An error refuses the command; then nothing has changed. If nothing follows from the command (a
  // late report, a tick before its time), the record has index 0 and no events, nothing has changed, and the record
  // need not be kept. Time does not go back: a `wall_ns` before the latest one counts as the latest.
  [[nodiscard]] Result<Record> execute(Command command, std::int64_t wall_ns);
  // The same into `record`, whose memory is reused.
  [[nodiscard]] Result<void> execute(Command&& command, std::int64_t wall_ns, Record& record);

  // Recovery: applies the events of a record that was decided earlier. kCorrupt if its index or a hash shows that it
  // does not follow on this state.
  [[nodiscard]] Result<void> apply(const Record& record);
  // Decides the record's command again, applies it, and compares the events and hashes: kConflict if they differ,
  // with details "record", "then" (what was decided) and "now" (what would be decided).
  [[nodiscard]] Result<void> verify(const Record& record);

  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] Hash128 hash() const { return hash_; }
  [[nodiscard]] Term term() const { return term_; }
  void set_term(Term term) { term_ = term; }

  // The earliest time at which a Tick may have an effect; the far future if none is known.
  [[nodiscard]] std::int64_t next_due_ns() const { return state_.next_due_ns(); }

  // A snapshot and the records after it give the same state as all records (B-21).
  [[nodiscard]] std::string snapshot() const;
  [[nodiscard]] static Result<Brain> restore(std::string_view bytes);

  // For Selection::kCustom: call it before executing a SetPolicy with it, and after restore().
  void use_selector(Selector selector) { state_.use_selector(selector); }

  void check_invariants() const { state_.check_invariants(); }

 private:
  State state_;
  Hash128 hash_ = state_.hash();  // Of the state after the last record.
  Term term_;
  std::int64_t seen_ns_ = 0;  // The latest wall time of any command, recorded or not.
};

}  // namespace rota::fleet
