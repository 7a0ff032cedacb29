#include "fleet/run_times.h"

#include <algorithm>

namespace rota::fleet {

namespace {

constexpr std::uint32_t kSamples = 16;
constexpr std::int64_t kMostSample = std::int64_t{1} << 58;  // About nine years, and sums do not overflow.

Hash128 hash_of(const RunTime& time, bool young) {
  return rota::hash_of(std::uint8_t{young}, time.key, time.mean, time.samples);
}

}  // namespace

RunKey key_of_task(std::string_view workflow, std::string_view stage, std::string_view item) {
  return rota::hash_of(std::uint8_t{1}, workflow, stage, item).low;
}

RunKey key_of_work(const model::TaskSpec& spec) {
  Hasher hasher;
  hasher.add(std::uint8_t{2}).add(spec.type);
  if (spec.program && spec.type == "shell") hasher.add(spec.program->shell).add(spec.program->arguments);
  return hasher.finish128().low;
}

RunKey key_of_kind(std::uint64_t salt) { return rota::hash_of(std::uint8_t{3}, salt).low; }

std::optional<std::int64_t> RunTimes::find(RunKey key) const {
  for (const Map* map : {&young_, &old_}) {
    if (const auto found = map->find(key); found != map->end()) return found->second.mean;
  }
  return std::nullopt;
}

Hash128 RunTimes::hash() const {
  static const Hash128 kNothing = SetHash().value();
  return empty() ? kNothing : set_.value();
}

void RunTimes::learn(RunKey key, std::int64_t sample) {
  sample = std::clamp<std::int64_t>(sample, 1, kMostSample);
  const auto [place, fresh] = young_.try_emplace(key, RunTime{key, sample, 0});
  RunTime& time = place->second;
  if (!fresh) {
    set_.remove(hash_of(time, true));
  } else if (const auto known = old_.find(key); known != old_.end()) {
    set_.remove(hash_of(known->second, false));
    time = known->second;
    old_.erase(known);
  }
  time.samples = std::min(time.samples + 1, kSamples);
  time.mean = std::max<std::int64_t>(1, time.mean + (sample - time.mean) / static_cast<std::int64_t>(time.samples));
  set_.add(hash_of(time, true));
  if (young_.size() >= kMost) age();
}

void RunTimes::age() {
  old_ = std::move(young_);
  young_ = Map();
  set_ = SetHash();
  for (const auto& [key, time] : old_) set_.add(hash_of(time, false));
}

RunTimes::Image RunTimes::image() const {
  Image image;
  for (const auto& [key, time] : young_) image.young.push_back(time);
  for (const auto& [key, time] : old_) image.old.push_back(time);
  return image;
}

RunTimes RunTimes::from(const Image& image) {
  RunTimes times;
  for (const RunTime& time : image.young) times.young_.emplace(time.key, time);
  for (const RunTime& time : image.old) times.old_.emplace(time.key, time);
  for (const auto& [key, time] : times.young_) times.set_.add(hash_of(time, true));
  for (const auto& [key, time] : times.old_) times.set_.add(hash_of(time, false));
  return times;
}

}  // namespace rota::fleet
