// Makes a copy of a ledger's file while it is being written to.
#pragma once

#include <functional>
#include <string>

#include "ledger/disk_options.h"
#include "rota/result.h"

namespace rota::ledger::detail {

class Connection;

// Copies all pages that `from` sees to a new database at `path`, syncs it, and checks the copy record by record. One
// read transaction, and so the state of one moment. Only the owner may read the copy.
Result<void> copy_ledger(Connection& from, const std::string& path, const char* vfs);

// Calls copy(path.partial) and renames the file that it made, durably. AlreadyExists if `path` exists. A failure leaves
// neither file.
Result<void> write_backup(const std::string& path, int (*rename)(const char* from, const char* to),
                          const std::function<Result<void>(const std::string& partial)>& copy);

// Both, with the transactions that are committed at its beginning, for a ledger that this process writes. Blocks the
// calling thread.
Result<void> back_up(const DiskOptions& options, const std::string& path);

}  // namespace rota::ledger::detail
