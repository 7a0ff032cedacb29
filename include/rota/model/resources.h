// Resources: what a task asks for, what a worker has, and what is in use there.
//
// This is the only place that decides whether something fits. A new kind of resource is a member of Amounts with a row
// in kAmountKinds: encoding, comparison, addition, text and the keys of the workflow and fleet files follow from it.
//
// All numbers are signed, so that a negative one can be rejected by name instead of being read as a huge one.
//
// Thread safety: as of any value.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rota/model/fields.h"

namespace rota::model {

// An amount of a counted resource that somebody named: {"licence", 2}.
struct NamedAmount {
  std::string name{};
  std::int64_t count = 0;
  ROTA_FIELDS(name, count)
  friend auto operator<=>(const NamedAmount&, const NamedAmount&) = default;
};

// An amount of each kind of resource that can be added up.
struct Amounts {
  std::int64_t cpu_millis = 0;  // Thousandths of a core.
  std::int64_t memory_bytes = 0;
  std::vector<NamedAmount> named{};  // Sorted by name; each count is above 0.
  ROTA_FIELDS(cpu_millis, memory_bytes, named)
  friend auto operator<=>(const Amounts&, const Amounts&) = default;

  // Adds `more` as many times as said. REQUIRES: times > 0.
  void add(const Amounts& more, std::int64_t times = 1);
  // REQUIRES: `less` was added before.
  void subtract(const Amounts& less);
  // True if `need` fits into this together with `used`. An amount that this does not have counts as 0.
  [[nodiscard]] bool fits(const Amounts& need, const Amounts& used) const;
  // How much of the named resource this has.
  [[nodiscard]] std::int64_t count_of(std::string_view name) const;
  // True if `named` is as described above: names are given, unique and sorted; counts are above 0.
  [[nodiscard]] bool named_is_valid() const;

 private:
  [[nodiscard]] bool named_fits(const Amounts& need, const Amounts& used) const;
};

enum class AmountUnit : std::uint8_t { kThousandths, kBytes, kCount };
// The kinds with a member of their own: the name is the key in files and messages.
struct AmountKind {
  std::string_view name;
  AmountUnit unit;
  std::int64_t Amounts::* member;
};
inline constexpr std::array kAmountKinds = {
    AmountKind{"cpu", AmountUnit::kThousandths, &Amounts::cpu_millis},
    AmountKind{"memory", AmountUnit::kBytes, &Amounts::memory_bytes},
};

inline bool Amounts::fits(const Amounts& need, const Amounts& used) const {
  for (const AmountKind& kind : kAmountKinds) {
    if (need.*kind.member > this->*kind.member - used.*kind.member) return false;
  }
  return need.named.empty() || named_fits(need, used);
}

// A device of a worker. A worker has at most kMostDevices; a set of them is a number, bit i for device i.
struct Device {
  std::string model{};
  std::int64_t memory_bytes = 0;
  ROTA_FIELDS(model, memory_bytes)
  friend auto operator<=>(const Device&, const Device&) = default;
};
inline constexpr std::int64_t kMostDevices = 64;
using DeviceSet = std::uint64_t;

// `count` devices, each of this model (any model if empty) and with at least this much memory.
struct DeviceRequest {
  std::int64_t count = 0;
  std::string model{};
  std::int64_t memory_bytes = 0;
  ROTA_FIELDS(count, model, memory_bytes)
  friend auto operator<=>(const DeviceRequest&, const DeviceRequest&) = default;
};

// What a task asks for. A task that says nothing asks for one core; 0 cores is allowed (a task that only waits).
struct ResourceRequest : Amounts {
  ResourceRequest() { cpu_millis = 1000; }
  DeviceRequest gpu{};
  ROTA_FIELDS_WITH_BASE(Amounts, gpu)
  friend auto operator<=>(const ResourceRequest&, const ResourceRequest&) = default;
};

// What is held on one worker, by one task or by all of them.
struct ResourceUse : Amounts {
  std::int64_t gpus = 0;  // How many devices.
  DeviceSet devices = 0;  // Which; empty while a task waits at its worker.
  ROTA_FIELDS_WITH_BASE(Amounts, gpus, devices)
  friend auto operator<=>(const ResourceUse&, const ResourceUse&) = default;

  void add(const ResourceUse& more);
  void subtract(const ResourceUse& less);
};

// What a worker has.
struct Resources : Amounts {
  std::vector<Device> gpus{};
  ROTA_FIELDS_WITH_BASE(Amounts, gpus)
  friend auto operator<=>(const Resources&, const Resources&) = default;

  // The devices of which each meets the request.
  [[nodiscard]] DeviceSet suitable_devices(const DeviceRequest& request) const;
  [[nodiscard]] DeviceSet all_devices() const;
  // Could run a task with this request if nothing else ran here.
  [[nodiscard]] bool can_run(const ResourceRequest& request) const { return fits(request, ResourceUse{}); }
  [[nodiscard]] bool fits(const ResourceRequest& request, const ResourceUse& used) const {
    return fits(request, used, request.gpu.count == 0 ? 0 : suitable_devices(request.gpu));
  }
  // The same for a caller that has kept suitable_devices(request.gpu).
  [[nodiscard]] bool fits(const ResourceRequest& request, const ResourceUse& used, DeviceSet suitable) const {
    return Amounts::fits(request, used) && std::popcount(suitable & ~used.devices) >= request.gpu.count;
  }
  // True if what a task holds, its devices included, fits beside `used`.
  [[nodiscard]] bool fits(const ResourceUse& held, const ResourceUse& used) const;
  // How many tasks with this request fit beside `used` at once; kMany if nothing limits their number.
  static constexpr std::int64_t kMany = std::int64_t{1} << 40;
  [[nodiscard]] std::int64_t count(const ResourceRequest& request, const ResourceUse& used = {}) const;
  // What a task with this request holds here, or several of them together: the free devices that meet the request,
  // those with the least memory first. REQUIRES: tasks <= count(request, used).
  [[nodiscard]] ResourceUse allot(const ResourceRequest& request, const ResourceUse& used,
                                  std::int64_t tasks = 1) const;
  // One text for each part of the request that this could never meet: "memory: 64 GiB needed, 16 GiB available".
  [[nodiscard]] std::vector<std::string> unmet(const ResourceRequest& request) const;
};

// What the tasks of one user hold in the whole fleet. As a quota: what they may hold at most; 0 means no limit.
struct FleetUse : Amounts {
  std::int64_t gpus = 0;
  std::int64_t tasks = 0;
  ROTA_FIELDS_WITH_BASE(Amounts, gpus, tasks)
  friend auto operator<=>(const FleetUse&, const FleetUse&) = default;

  // What `tasks` tasks with this request hold.
  [[nodiscard]] static FleetUse of(const ResourceRequest& request, std::int64_t tasks = 1);
  // Adds or subtracts what one task holds.
  void add(const ResourceUse& held);
  void subtract(const ResourceUse& held);

  // One limit that a quota sets and that would be exceeded.
  struct Excess {
    std::string what{};  // "cpu", "gpus", "tasks", "licence"
    AmountUnit unit = AmountUnit::kCount;
    std::int64_t limit = 0;
    std::int64_t used = 0;
    std::int64_t more = 0;
  };
  // As a quota: the first limit that `used` and `more` together exceed, or nothing.
  [[nodiscard]] std::optional<Excess> exceeded(const FleetUse& used, const FleetUse& more) const;
  [[nodiscard]] bool limits_nothing() const {
    for (const AmountKind& kind : kAmountKinds) {
      if (this->*kind.member != 0) return false;
    }
    return gpus == 0 && tasks == 0 && named.empty();
  }
};

// "2.5" (cores), "64 GiB", "3": an amount with its unit, for people.
[[nodiscard]] std::string amount_text(AmountUnit unit, std::int64_t amount);
// "cpu 2, memory 64 GiB, gpu 1 x A100, licence 2"; "nothing" if all amounts are 0.
[[nodiscard]] std::string to_text(const ResourceRequest& request);
[[nodiscard]] std::string to_text(const ResourceUse& use);
[[nodiscard]] std::string to_text(const Resources& resources);

}  // namespace rota::model
