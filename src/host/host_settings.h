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
  // The etcd servers of a replicated log (L-3); empty: the log is in the state folder.
  std::string etcd{};
  std::string etcd_prefix{};  // Of the keys; it ends with '/'.
  Duration etcd_lease{};
  std::string etcd_ca{};  // PEM files, for https://.
  std::string etcd_certificate{};
  std::string etcd_key{};
  std::string advertise{};  // The URL under which clients and other hosts reach this one.
  // H-3.
  bool density = false;
  std::string metrics_directory{};
  std::int64_t density_bucket_sec = 0;
  // The HTTP interface (http_door.h); empty: none.
  std::string http{};
  std::string http_certificate{};
  std::string http_key{};
  StringList http_hosts{};
  std::int64_t http_connections = 0;
  std::string secrets{};  // The folder of the secrets of tasks; empty: none.
  std::string files{};    // The folder of the store of files.
  std::uint64_t files_bytes = 0;
};

// The file of H-2, and the one of H-3.
[[nodiscard]] inline std::string metrics_path(const HostConfig& config) {
  return config.metrics_directory.empty() ? std::string() : config.metrics_directory + "/metrics.json";
}
[[nodiscard]] inline std::string density_path(const HostConfig& config) {
  return (config.metrics_directory.empty() ? config.state : config.metrics_directory) + "/task_worker_density.json";
}

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
  Setting<std::string> etcd_;
  Setting<std::string> etcd_prefix_;
  Setting<Duration> etcd_lease_;
  Setting<std::string> etcd_ca_;
  Setting<std::string> etcd_certificate_;
  Setting<std::string> etcd_key_;
  Setting<std::string> advertise_;
  Setting<bool> density_;
  Setting<std::string> metrics_directory_;
  Setting<std::int64_t> density_bucket_;
  Setting<std::string> http_;
  Setting<std::string> http_certificate_;
  Setting<std::string> http_key_;
  Setting<StringList> http_hosts_;
  Setting<std::int64_t> http_connections_;
  Setting<std::string> secrets_;
  Setting<std::string> files_;
  Setting<ByteSize> files_bytes_;
};

}  // namespace rota::host
