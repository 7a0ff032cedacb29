// Brain: the state, and the way in. One command at a time goes in; the record that must become durable comes out.
//
//   Brain brain(term);
//   Result<Record> record = brain.execute(SubmitWorkflow{...}, wall_ns);
//   ... make it durable, then let its effects out ...
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

  // Decides and applies. An error refuses the command, and nothing has changed. A record without events says that
  // nothing follows from it (a late report, a tick too early): it has index 0, nothing has changed, and it need not be
  // kept. Time never goes back: an earlier `wall_ns` than the latest is taken for that.
  [[nodiscard]] Result<Record> execute(Command command, std::int64_t wall_ns);
  // The same without a copy: `record` is filled; its events' memory is used again.
  [[nodiscard]] Result<void> execute(Command command, std::int64_t wall_ns, Record& record);

  // Recovery: the events of a record that was decided earlier, by this or another policy. kCorrupt if it does not
  // continue the state: its index, or a hash that differs.
  [[nodiscard]] Result<void> apply(const Record& record);
  // Decides the record's command again, applies it, and compares the events and hashes: kConflict if they differ,
  // with details "record", and "then" and "now": what was decided, and what would be.
  [[nodiscard]] Result<void> verify(const Record& record);

  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] Hash128 hash() const { return hash_; }
  [[nodiscard]] Term term() const { return term_; }
  void set_term(Term term) { term_ = term; }

  // When a Tick would lead to something, at the earliest; the far future if never.
  [[nodiscard]] std::int64_t next_due_ns() const { return state_.next_due_ns(); }

  // A snapshot plus the records after it give the same state as all records.
  [[nodiscard]] std::string snapshot() const;
  [[nodiscard]] static Result<Brain> restore(std::string_view bytes);

  // For Selection::kCustom, before a SetPolicy with it is executed; also after a restore().
  void use_selector(Selector selector) { state_.use_selector(selector); }

  void check_invariants() const { state_.check_invariants(); }

 private:
  State state_;
  Hash128 hash_ = state_.hash();  // The state's, between two records.
  Term term_;
  std::int64_t seen_ns_ = 0;  // The latest wall time of any command, recorded or not.
};

}  // namespace rota::fleet
