// WorkerIdentity: how `rota worker --host URL --token T` becomes a member of a fleet, and stays one (H-5).
//
//   T = <join token>[.<SHA-256 of the host's CA>]     as `rota token join` prints it; the worker trusts that CA alone
//
// The identity and the account at Redis that the host gives are kept in a file with mode 0600, so that the worker can
// be started again while its identity is valid, without a new join token.
//
// Thread safety: none, except for CurrentIdentity.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/sync.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::cli {

class RemoteHost;

struct WorkerIdentity {
  std::string host{};  // The URL of the host.
  std::string ca_sha256{};
  std::string name{};
  std::string identity{};  // The token.
  std::int64_t expires_s = 0;
  // The account at Redis.
  std::string redis{};
  std::string prefix{};
  std::string user{};
  std::string password{};

  // The URL with the account: redis://user:password@host:6379. `address`: in the place of the one that the host named.
  [[nodiscard]] Result<std::string> redis_url(const std::string& address) const;
};

// Joins with the token; or, if `file` has an identity for this name and host that is still valid, renews that one.
// Writes the file unless its name is empty.
[[nodiscard]] Result<WorkerIdentity> join_fleet(const std::string& url, const std::string& token,
                                                const std::string& name, const std::string& file);

// The identity as it is now: some tasks renew it, others use it.
//
// Thread safety: all functions.
class CurrentIdentity {
 public:
  // `file`: where it is kept; empty: nowhere.
  CurrentIdentity(WorkerIdentity identity, std::string file) : file_(std::move(file)), identity_(std::move(identity)) {}
  [[nodiscard]] WorkerIdentity get() const {
    const sync::MutexLock lock(mutex_);
    return identity_;
  }
  // Asks the host for the next identity; with `redis`, also for a new password at Redis, which makes the former one
  // useless. One renewal at a time. In a task.
  Result<void> renew(bool redis);

 private:
  const std::string file_;
  fiber::Mutex renewing_;
  mutable sync::Mutex mutex_;
  WorkerIdentity identity_ ROTA_GUARDED_BY(mutex_);
};

// Renews the identity each time that two thirds of its life are over, until the task is cancelled. In a task.
void keep_identity(CurrentIdentity& identity);

// Asks the host for a secret of a task that this worker holds (U-7). While the host cannot be reached, tries again for
// a minute. In a task. NotFound.
[[nodiscard]] Result<std::string> fetch_secret(const CurrentIdentity& identity, const SecretRequest& request);

// The content of the file. ParseError.
[[nodiscard]] std::string to_text(const WorkerIdentity& identity);
[[nodiscard]] Result<WorkerIdentity> parse_identity(std::string_view text);

}  // namespace rota::cli
