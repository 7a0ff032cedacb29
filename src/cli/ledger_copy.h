// Copies a log between backends: a ledger on disk, and a replicated one in etcd (L-1).
//
//   etcd:URL,URL,URL     the log in these etcd servers; `etcd:` alone: those of ROTA_ETCD. ROTA_ETCD_PREFIX,
//                        ROTA_ETCD_CA, ROTA_ETCD_CERT and ROTA_ETCD_KEY as for `rota host`
//   anything else        the file of a ledger on disk
//
// The copy has the same records, with the same indices and bytes, the snapshot, and nothing of what was compacted.
// Terms continue: a host on the copy has a higher term than any in the log.
//
// Thread safety: none. Call it outside of a runtime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota::cli {

[[nodiscard]] bool is_etcd(std::string_view where);

struct CopiedLedger {
  std::uint64_t first_index = 1;
  std::uint64_t last_index = 0;
};

// AlreadyExists if there is a log at `to`, which is not changed then. NotLeader if a host uses the log at `to`. After
// another error, an incomplete copy on disk is removed; one in etcd stays, and the error says how to remove it.
[[nodiscard]] Result<CopiedLedger> copy_ledger(const std::string& from, const std::string& to);

}  // namespace rota::cli
