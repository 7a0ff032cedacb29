#include "rota/model/resources.h"

#include <algorithm>

#include "rota/assert.h"

namespace rota::model {

namespace {

// The entry for `name`, or where it belongs in the sorted list.
template <class List>
auto place_of(List& list, std::string_view name) {
  return std::lower_bound(list.begin(), list.end(), name,
                          [](const NamedAmount& entry, std::string_view wanted) { return entry.name < wanted; });
}

// A whole number of thousandths as a decimal: 2500 is "2.5".
std::string thousandths(std::int64_t amount) {
  const bool negative = amount < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(amount) : static_cast<std::uint64_t>(amount);
  std::string text = (negative ? "-" : "") + std::to_string(size / 1000);
  if (size % 1000 != 0) {
    std::string fraction = std::to_string(1000 + size % 1000).substr(1);
    fraction.erase(fraction.find_last_not_of('0') + 1);
    text.append(".").append(fraction);
  }
  return text;
}

void append_part(std::string& text, std::string_view name, std::string_view amount) {
  text.append(text.empty() ? "" : ", ").append(name).append(" ").append(amount);
}

std::string amounts_text(const Amounts& amounts) {
  std::string text;
  for (const AmountKind& kind : kAmountKinds) {
    if (const std::int64_t amount = amounts.*kind.member; amount != 0) {
      append_part(text, kind.name, amount_text(kind.unit, amount));
    }
  }
  return text;
}

void append_named(std::string& text, const Amounts& amounts) {
  for (const NamedAmount& entry : amounts.named) append_part(text, entry.name, std::to_string(entry.count));
}

std::string or_nothing(std::string text) { return text.empty() ? "nothing" : text; }

std::string needed(std::string_view what, const std::string& need, const std::string& available) {
  return std::string(what) + ": " + need + " needed, " + available + " available";
}

}  // namespace

void Amounts::add(const Amounts& more, std::int64_t times) {
  for (const AmountKind& kind : kAmountKinds) this->*kind.member += more.*kind.member * times;
  for (const NamedAmount& entry : more.named) {
    const auto place = place_of(named, entry.name);
    if (place != named.end() && place->name == entry.name) {
      place->count += entry.count * times;
    } else {
      named.insert(place, {entry.name, entry.count * times});
    }
  }
}

void Amounts::subtract(const Amounts& less) {
  for (const AmountKind& kind : kAmountKinds) this->*kind.member -= less.*kind.member;
  for (const NamedAmount& entry : less.named) {
    const auto place = place_of(named, entry.name);
    ROTA_ASSERT(place != named.end() && place->name == entry.name && place->count >= entry.count,
                "subtracting a named resource that was not added");
    place->count -= entry.count;
    if (place->count == 0) named.erase(place);
  }
}

std::int64_t Amounts::count_of(std::string_view name) const {
  const auto place = place_of(named, name);
  return place != named.end() && place->name == name ? place->count : 0;
}

bool Amounts::named_is_valid() const {
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i].name.empty() || named[i].count <= 0) return false;
    if (i > 0 && named[i - 1].name >= named[i].name) return false;
  }
  return true;
}

bool Amounts::named_fits(const Amounts& need, const Amounts& used) const {
  return std::all_of(need.named.begin(), need.named.end(), [&](const NamedAmount& entry) {
    return entry.count <= count_of(entry.name) - used.count_of(entry.name);
  });
}

void ResourceUse::add(const ResourceUse& more) {
  Amounts::add(more);
  gpus += more.gpus;
  devices |= more.devices;
}

void ResourceUse::subtract(const ResourceUse& less) {
  Amounts::subtract(less);
  gpus -= less.gpus;
  devices &= ~less.devices;
}

DeviceSet Resources::suitable_devices(const DeviceRequest& request) const {
  DeviceSet set = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Device& device = gpus[i];
    if ((request.model.empty() || device.model == request.model) && device.memory_bytes >= request.memory_bytes) {
      set |= DeviceSet{1} << i;
    }
  }
  return set;
}

DeviceSet Resources::all_devices() const {
  return gpus.size() >= kMostDevices ? ~DeviceSet{0} : (DeviceSet{1} << gpus.size()) - 1;
}

bool Resources::fits(const ResourceUse& held, const ResourceUse& used) const {
  return Amounts::fits(held, used) && held.gpus + used.gpus <= static_cast<std::int64_t>(gpus.size()) &&
         (held.devices & ~all_devices()) == 0 && (held.devices & used.devices) == 0;
}

std::int64_t Resources::count(const ResourceRequest& request, const ResourceUse& used) const {
  if (!fits(request, used)) return 0;
  std::int64_t most = kMany;
  for (const AmountKind& kind : kAmountKinds) {
    const std::int64_t need = request.*kind.member;
    if (need > 0) most = std::min(most, (this->*kind.member - used.*kind.member) / need);
  }
  for (const NamedAmount& entry : request.named) {
    most = std::min(most, (count_of(entry.name) - used.count_of(entry.name)) / entry.count);
  }
  if (request.gpu.count > 0) {
    const int free = std::popcount(suitable_devices(request.gpu) & ~used.devices);
    most = std::min(most, free / request.gpu.count);
  }
  return most;
}

ResourceUse Resources::allot(const ResourceRequest& request, const ResourceUse& used, std::int64_t tasks) const {
  ResourceUse use;
  if (tasks == 1) {
    static_cast<Amounts&>(use) = request;
  } else {
    use.Amounts::add(request, tasks);
  }
  use.gpus = request.gpu.count * tasks;
  DeviceSet free = use.gpus == 0 ? 0 : suitable_devices(request.gpu) & ~used.devices;
  for (std::int64_t i = 0; i < use.gpus; ++i) {
    ROTA_ASSERT(free != 0, "the request does not fit");
    int best = -1;
    for (DeviceSet left = free; left != 0; left &= left - 1) {
      const int device = std::countr_zero(left);
      const auto memory = [this](int d) { return gpus[static_cast<std::size_t>(d)].memory_bytes; };
      if (best < 0 || memory(device) < memory(best)) best = device;
    }
    use.devices |= DeviceSet{1} << best;
    free &= ~(DeviceSet{1} << best);
  }
  return use;
}

std::vector<std::string> Resources::unmet(const ResourceRequest& request) const {
  std::vector<std::string> all;
  for (const AmountKind& kind : kAmountKinds) {
    const std::int64_t need = request.*kind.member, have = this->*kind.member;
    if (have < need) all.push_back(needed(kind.name, amount_text(kind.unit, need), amount_text(kind.unit, have)));
  }
  const DeviceRequest& gpu = request.gpu;
  const auto devices = static_cast<std::int64_t>(gpus.size());
  if (devices < gpu.count) {
    all.push_back(needed("gpu.count", std::to_string(gpu.count), std::to_string(devices)));
  } else if (gpu.count > 0) {
    const auto of_model = std::popcount(suitable_devices({gpu.count, gpu.model, 0}));
    const auto suitable = std::popcount(suitable_devices(gpu));
    if (of_model < gpu.count) {
      all.push_back(
          needed("gpu.type", std::to_string(gpu.count) + " of '" + gpu.model + "'", std::to_string(of_model)));
    } else if (suitable < gpu.count) {
      all.push_back(needed("gpu.memory",
                           std::to_string(gpu.count) + (gpu.count == 1 ? " device with " : " devices with ") +
                               amount_text(AmountUnit::kBytes, gpu.memory_bytes) + " each",
                           std::to_string(suitable)));
    }
  }
  for (const NamedAmount& entry : request.named) {
    if (const std::int64_t have = count_of(entry.name); have < entry.count) {
      all.push_back(needed(entry.name, std::to_string(entry.count), std::to_string(have)));
    }
  }
  return all;
}

FleetUse FleetUse::of(const ResourceRequest& request, std::int64_t tasks) {
  // A gang may have so many tasks that the product overflows: then it is more than any limit.
  const auto times = [tasks](std::int64_t amount) {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    std::int64_t product = 0;
    return __builtin_mul_overflow(amount, tasks, &product) || product > kMost ? kMost : product;
  };
  FleetUse use;
  static_cast<Amounts&>(use) = request;
  for (const AmountKind& kind : kAmountKinds) use.*kind.member = times(use.*kind.member);
  for (NamedAmount& entry : use.named) entry.count = times(entry.count);
  use.gpus = times(request.gpu.count);
  use.tasks = tasks;
  return use;
}

void FleetUse::add(const ResourceUse& held) {
  Amounts::add(held);
  gpus += held.gpus;
  ++tasks;
}

void FleetUse::subtract(const ResourceUse& held) {
  Amounts::subtract(held);
  gpus -= held.gpus;
  --tasks;
}

std::optional<FleetUse::Excess> FleetUse::exceeded(const FleetUse& used, const FleetUse& more) const {
  if (limits_nothing()) return std::nullopt;
  const auto over = [](std::int64_t limit, std::int64_t have, std::int64_t add) {
    return limit > 0 && add > limit - have;
  };
  for (const AmountKind& kind : kAmountKinds) {
    const std::int64_t limit = this->*kind.member, have = used.*kind.member, add = more.*kind.member;
    if (over(limit, have, add)) return Excess{std::string(kind.name), kind.unit, limit, have, add};
  }
  if (over(gpus, used.gpus, more.gpus)) return Excess{"gpus", AmountUnit::kCount, gpus, used.gpus, more.gpus};
  if (over(tasks, used.tasks, more.tasks)) return Excess{"tasks", AmountUnit::kCount, tasks, used.tasks, more.tasks};
  for (const NamedAmount& limit : named) {
    const std::int64_t have = used.count_of(limit.name), add = more.count_of(limit.name);
    if (over(limit.count, have, add)) return Excess{limit.name, AmountUnit::kCount, limit.count, have, add};
  }
  return std::nullopt;
}

std::string amount_text(AmountUnit unit, std::int64_t amount) {
  switch (unit) {
    case AmountUnit::kThousandths:
      return thousandths(amount);
    case AmountUnit::kBytes: {
      static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
      std::size_t index = 0;
      while (index + 1 < std::size(kUnits) && amount >= 1024 && amount % 1024 == 0) {
        amount /= 1024;
        ++index;
      }
      return std::to_string(amount) + " " + std::string(kUnits[index]);
    }
    case AmountUnit::kCount:
      break;
  }
  return std::to_string(amount);
}

std::string to_text(const ResourceRequest& request) {
  std::string text = amounts_text(request);
  if (request.gpu.count > 0) {
    std::string devices = std::to_string(request.gpu.count);
    if (!request.gpu.model.empty()) devices.append(" x ").append(request.gpu.model);
    if (request.gpu.memory_bytes > 0) {
      devices.append(" with ").append(amount_text(AmountUnit::kBytes, request.gpu.memory_bytes));
    }
    append_part(text, "gpu", devices);
  }
  append_named(text, request);
  return or_nothing(std::move(text));
}

std::string to_text(const ResourceUse& use) {
  std::string text = amounts_text(use);
  if (use.gpus > 0) append_part(text, "gpu", std::to_string(use.gpus));
  append_named(text, use);
  return or_nothing(std::move(text));
}

std::string to_text(const Resources& resources) {
  std::string text = amounts_text(resources);
  if (!resources.gpus.empty()) append_part(text, "gpu", std::to_string(resources.gpus.size()));
  append_named(text, resources);
  return or_nothing(std::move(text));
}

}  // namespace rota::model
