#include "ledger/kv_store.h"

#include "rota/assert.h"

namespace rota::ledger::kv {

KeyRange with_prefix(std::string prefix) {
  ROTA_ASSERT(!prefix.empty() && prefix.back() != '\xff', "a prefix needs a successor");
  std::string end = prefix;
  ++end.back();
  return {std::move(prefix), std::move(end)};
}

Error compacted_error(std::int64_t revision, const std::string& where) {
  return Error{ErrorCode::kNotFound,
               where + ": the requested revision was compacted; the oldest one kept is " + std::to_string(revision)}
      .with("compacted", std::to_string(revision));
}

bool is_compacted(const Error& error) { return error.detail("compacted") != nullptr; }

bool is_unknown_outcome(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kCancelled;
}

}  // namespace rota::ledger::kv
