// Every member of fleet::Policy as a setting: one table of names for flags, environment and files (H-4).
//
//   SettingsTable table;
//   const PolicySettings rows(table);
//   ... load_settings(table, ...) ...
//   Result<fleet::Policy> policy = rows.policy(load.settings);
//
// Fractions are decimals in a setting and billionths in the policy; a setting named _sec is in seconds, the policy in
// milliseconds.
//
// Thread safety: as SettingsTable and Settings.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/settings.h"
#include "fleet/policy.h"

namespace rota::host {

class PolicySettings {
 public:
  // Adds the rows to the table. REQUIRES: the table outlives this object.
  explicit PolicySettings(SettingsTable& table);

  // kInvalidArgument, with the reason, for a policy that the brain would refuse (B-24).
  [[nodiscard]] Result<fleet::Policy> policy(const Settings& settings) const;
  // True if the value was given, and is not the default.
  template <class T>
  [[nodiscard]] static bool is_set(const Settings& settings, Setting<T> setting) {
    return settings.origin(setting).kind != SettingOrigin::Kind::kDefault;
  }
  [[nodiscard]] Setting<std::int64_t> max_queue_per_worker() const { return max_queue_; }
  [[nodiscard]] Setting<std::int64_t> heartbeat_ttl() const { return heartbeat_ttl_; }
  [[nodiscard]] Setting<std::int64_t> no_worker_grace() const { return grace_; }
  [[nodiscard]] Setting<fleet::Order> order() const { return order_; }
  [[nodiscard]] Setting<std::int64_t> aging_boost() const { return aging_boost_; }

 private:
  using Apply = std::function<Result<void>(const Settings&, fleet::Policy&)>;
  std::vector<Apply> apply_;
  Setting<std::int64_t> max_queue_;
  Setting<std::int64_t> heartbeat_ttl_;
  Setting<std::int64_t> grace_;
  Setting<fleet::Order> order_;
  Setting<std::int64_t> aging_boost_;
};

}  // namespace rota::host
