// Decodes a single record of a ledger, for readers that begin in the middle of a log: lists and streams of records.
//
// Unlike decode_record() it knows no record before this one, so it checks neither the chain nor the order. The ledger
// checks its own bytes, and the follower, which applies every record, checks the chain.
//
// Thread safety: a function without state.
#pragma once

#include <string_view>

#include "fleet/record.h"
#include "rota/result.h"

namespace rota::fleet {

// Corrupt if the bytes are not one record.
[[nodiscard]] Result<Record> decode_stored_record(std::string_view bytes);

}  // namespace rota::fleet
