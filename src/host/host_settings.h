// The settings of `rota host` beyond the policy, as rows of a table (H-4).
//
// Thread safety: as SettingsTable and Settings.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/settings.h"
#include "ledger/disk_options.h"

namespace rota::host {

struct HostConfig {
  std::string state{};         // The state folder.
  std::string redis{};         // The URL of the Redis server of the fleet; empty: no fleet, local workers only.
  std::string redis_prefix{};  // Of the keys in Redis.
  std::string redis_ca{};      // The file with the CAs for rediss://.
  std::int64_t local_workers = 0;
  std::int64_t threads = 0;
  Duration drain{};  // How long tasks of local workers may run after the signal to stop.
  ledger::Durability durability = ledger::Durability::kFull;
  std::uint64_t snapshot_every = 0;
  bool compact = true;
  std::uint64_t output_most_bytes = 0;
  // H-3.
  bool density = false;
  std::string metrics_directory{};
  std::int64_t density_bucket_sec = 0;
  // The HTTP interface (http_door.h); empty: none.
  std::string http{};
  std::string http_certificate{};
  std::string http_key{};
  StringList http_hosts{};
};

class HostSettings {
 public:
  // Adds the rows to the table. REQUIRES: the table outlives this object.
  explicit HostSettings(SettingsTable& table);
  [[nodiscard]] HostConfig config(const Settings& settings) const;

 private:
  Setting<std::string> state_;
  Setting<std::string> redis_;
  Setting<std::string> redis_prefix_;
  Setting<std::string> redis_ca_;
  Setting<std::int64_t> local_workers_;
  Setting<std::int64_t> threads_;
  Setting<Duration> drain_;
  Setting<ledger::Durability> durability_;
  Setting<std::int64_t> snapshot_every_;
  Setting<bool> compact_;
  Setting<ByteSize> output_most_;
  Setting<bool> density_;
  Setting<std::string> metrics_directory_;
  Setting<std::int64_t> density_bucket_;
  Setting<std::string> http_;
  Setting<std::string> http_certificate_;
  Setting<std::string> http_key_;
  Setting<StringList> http_hosts_;
};

}  // namespace rota::host
