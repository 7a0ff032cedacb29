#include "sim/shrink.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace rota::sim {

namespace {

class Shrinker {
 public:
  Shrinker(Scenario scenario, const StillFails& still_fails, std::size_t most)
      : best_(std::move(scenario)), still_fails_(still_fails), most_(most) {}

  Shrunk run() {
    bool progress = true;
    while (progress && replays_ < most_) {
      progress = false;
      progress |= shrink_list([](Scenario& s) -> auto& { return s.faults; });
      progress |= shrink_list([](Scenario& s) -> auto& { return s.actions; });
      progress |= remove_workflows();
      progress |= remove_workers();
      progress |= reset_noise();
      progress |= reset_settings();
      progress |= thin_out_items();
      progress |= remove_stages();
    }
    return {std::move(best_), replays_};
  }

 private:
  bool accept(Scenario candidate) {
    if (replays_ >= most_) return false;
    ++replays_;
    if (!still_fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  // Removes runs of elements: halves first, then smaller ones.
  template <class Get>
  bool shrink_list(Get get) {
    bool progress = false;
    for (std::size_t run = std::max<std::size_t>(get(best_).size(), 1); run >= 1; run /= 2) {
      for (std::size_t at = 0; at < get(best_).size();) {
        Scenario candidate = best_;
        auto& list = get(candidate);
        const auto from = list.begin() + static_cast<std::ptrdiff_t>(at);
        list.erase(from, from + static_cast<std::ptrdiff_t>(std::min(run, list.size() - at)));
        if (accept(std::move(candidate))) {
          progress = true;
        } else {
          at += run;
        }
      }
    }
    return progress;
  }

  // The workflow goes with the actions about it. Indices of the others stay: an empty place would not be a workflow, so
  // the last one is removed, or all actions of one are.
  bool remove_workflows() {
    bool progress = false;
    for (std::size_t w = best_.workflows.size(); w-- > 0;) {
      if (best_.workflows.size() <= 1) break;
      Scenario candidate = best_;
      candidate.workflows.erase(candidate.workflows.begin() + static_cast<std::ptrdiff_t>(w));
      const auto index = static_cast<std::int64_t>(w);
      std::erase_if(candidate.actions,
                    [&](const ClientAction& action) { return !is_of_worker(action) && action.workflow == index; });
      for (ClientAction& action : candidate.actions) {
        if (!is_of_worker(action) && action.workflow > index) --action.workflow;
      }
      progress |= accept(std::move(candidate));
    }
    return progress;
  }

  bool remove_workers() {
    bool progress = false;
    for (std::size_t w = best_.workers.size(); w-- > 1;) {
      Scenario candidate = best_;
      candidate.workers.erase(candidate.workers.begin() + static_cast<std::ptrdiff_t>(w));
      const auto index = static_cast<std::int64_t>(w);
      std::erase_if(candidate.faults, [&](const Fault& fault) { return fault.worker == index; });
      std::erase_if(candidate.actions,
                    [&](const ClientAction& action) { return is_of_worker(action) && action.workflow == index; });
      for (Fault& fault : candidate.faults) {
        if (fault.worker > index) --fault.worker;
      }
      for (ClientAction& action : candidate.actions) {
        if (is_of_worker(action) && action.workflow > index) --action.workflow;
      }
      progress |= accept(std::move(candidate));
    }
    return progress;
  }

  static bool is_of_worker(const ClientAction& action) {
    return action.kind == ClientActionKind::kDisableWorker || action.kind == ClientActionKind::kEnableWorker;
  }

  // Sets each field back to its default; first all of them.
  template <class T, class Get>
  bool reset_fields(Get get) {
    const T defaults{};
    Scenario all = best_;
    get(all) = defaults;
    if (!(get(best_) == defaults) && accept(std::move(all))) return true;
    bool progress = false;
    std::size_t fields = 0;
    T::fields(defaults, [&](std::string_view, const auto&) { ++fields; });
    for (std::size_t i = 0; i < fields; ++i) {
      Scenario candidate = best_;
      T changed = get(candidate);
      std::size_t at = 0;
      T::fields(changed, [&](std::string_view name, auto& member) {
        if (at++ != i) return;
        T::fields(defaults, [&](std::string_view other, const auto& value) {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::remove_cvref_t<decltype(member)>>) {
            if (other == name) member = value;
          }
        });
      });
      if (changed == get(best_)) continue;
      get(candidate) = changed;
      progress |= accept(std::move(candidate));
    }
    return progress;
  }
  bool reset_noise() {
    return reset_fields<Noise>([](Scenario& s) -> auto& { return s.noise; });
  }
  bool reset_settings() {
    const bool settings = reset_fields<SimSettings>([](Scenario& s) -> auto& { return s.settings; });
    return reset_fields<fleet::Policy>([](Scenario& s) -> auto& { return s.settings.policy; }) || settings;
  }

  bool thin_out_items() {
    bool progress = false;
    for (std::size_t w = 0; w < best_.workflows.size(); ++w) {
      for (std::size_t s = 0; s < best_.workflows[w].stages.size(); ++s) {
        while (best_.workflows[w].stages[s].items.size() > 1) {
          Scenario candidate = best_;
          auto& items = candidate.workflows[w].stages[s].items;
          items.resize(items.size() / 2);
          if (!accept(std::move(candidate))) break;
          progress = true;
        }
      }
    }
    return progress;
  }

  // Removes the last stage of a workflow, on which no other depends.
  bool remove_stages() {
    bool progress = false;
    for (std::size_t w = 0; w < best_.workflows.size(); ++w) {
      while (best_.workflows[w].stages.size() > 1) {
        Scenario candidate = best_;
        candidate.workflows[w].stages.pop_back();
        candidate.workflows[w].templates.pop_back();
        if (!accept(std::move(candidate))) break;
        progress = true;
      }
    }
    return progress;
  }

  Scenario best_;
  const StillFails& still_fails_;
  const std::size_t most_;
  std::size_t replays_ = 0;
};

}  // namespace

Shrunk shrink(Scenario scenario, const StillFails& still_fails, std::size_t replays_most) {
  return Shrinker(std::move(scenario), still_fails, replays_most).run();
}

}  // namespace rota::sim
