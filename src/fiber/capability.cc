// Capability contexts: what a task may do, and how much of it is in use (F-14).
#include "rota/fiber/capability.h"

#include <mutex>
#include <string>
#include <utility>

#include "fiber/meter_core.h"
#include "rota/assert.h"
#include "rota/fiber/error.h"

namespace rota::fiber::detail {

namespace {

// Calls take(context) for the context and all contexts it came from, from the inside out, each under its lock; if one
// refuses, undoes the earlier ones with undo(context).
template <class Take, class Undo>
bool take_along(CapContext* caps, const Take& take, const Undo& undo) {
  for (CapContext* at = caps; at != nullptr; at = at->giver) {
    bool taken = false;
    {
      std::lock_guard guard(at->lock);
      taken = take(at);
    }
    if (taken) continue;
    for (CapContext* back = caps; back != at; back = back->giver) {
      std::lock_guard guard(back->lock);
      undo(back);
    }
    return false;
  }
  return true;
}

template <class Undo>
void undo_along(CapContext* caps, const Undo& undo) {
  for (CapContext* at = caps; at != nullptr; at = at->giver) {
    std::lock_guard guard(at->lock);
    undo(at);
  }
}

Error denied(std::string_view capability, std::string_view why) {
  return Error{ErrorCode::kCapabilityDenied, std::string(capability) + std::string(why)}.with("capability",
                                                                                              std::string(capability));
}

// Plain threads, and the loop's own stack, where no task can wait: the code stays on its thread.
thread_local RuntimeCore* g_acting_in = nullptr;
thread_local CapContext* g_acting_rights = nullptr;

}  // namespace

RuntimeCore* helped_runtime() { return g_acting_in; }

CapContext* current_rights() {
  const ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) return g_acting_rights;
  if ((worker->hooks & kHookMeter) == 0) return nullptr;
  const std::uint64_t word = worker->fiber->task->meter;
  return word == 0 || is_inline(word) ? nullptr : meter_of(word)->caps;
}

ActingFor::ActingFor(RuntimeCore* runtime, CapContext* caps) : runtime_before_(g_acting_in), before_(g_acting_rights) {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) {
    g_acting_in = runtime;
    g_acting_rights = caps;
    return;
  }
  // A task runs the callback of another one: it keeps what both may do. It may move to another thread meanwhile.
  if (caps == nullptr || (worker->hooks & kHookMeter) == 0) return;
  meter_ = open_meter(worker, worker->fiber->task);
  before_ = std::exchange(meter_->caps, add_reference(caps));
  plain_before_ = std::exchange(meter_->plain, false);  // The quick path of a spawn does not look at capabilities.
}

ActingFor::~ActingFor() {
  if (meter_ != nullptr) {
    drop_reference(std::exchange(meter_->caps, before_));
    meter_->plain = plain_before_;
  } else if (const ThreadWorker* worker = current_worker(); worker == nullptr || worker->fiber->task == nullptr) {
    g_acting_in = runtime_before_;
    g_acting_rights = before_;
  }
}

namespace {

// A reference, for closures.
class Rights {
 public:
  explicit Rights(CapContext* caps) : caps_(add_reference(caps)) {}
  Rights(const Rights& other) : caps_(add_reference(other.caps_)) {}
  Rights(Rights&& other) noexcept : caps_(std::exchange(other.caps_, nullptr)) {}
  Rights& operator=(const Rights&) = delete;
  ~Rights() { drop_reference(caps_); }
  [[nodiscard]] CapContext* get() const { return caps_; }

 private:
  CapContext* caps_;
};

// A callback that runs, and is destroyed, with the capabilities of the task that made it.
class RightfulCall {
 public:
  RightfulCall(std::function<void()> f, CapContext* caps) : f_(std::move(f)), rights_(caps) {}
  RightfulCall(const RightfulCall& other) = default;
  RightfulCall(RightfulCall&& other) noexcept : f_(std::exchange(other.f_, nullptr)), rights_(other.rights_) {}
  RightfulCall& operator=(const RightfulCall&) = delete;
  ~RightfulCall() {
    if (f_ == nullptr) return;
    const ActingFor acting(nullptr, rights_.get());
    f_ = nullptr;
  }
  void operator()() const {
    const ActingFor acting(nullptr, rights_.get());
    f_();
  }

 private:
  std::function<void()> f_;
  Rights rights_;
};

}  // namespace

std::function<void()> with_current_rights(std::function<void()> f) {
  CapContext* caps = current_rights();
  if (caps == nullptr) return f;
  return RightfulCall(std::move(f), caps);
}

CapContext* add_reference(CapContext* caps) {
  // Relaxed: the caller has a reference, or runs the task that has one.
  if (caps != nullptr) caps->references.fetch_add(1, std::memory_order_relaxed);
  return caps;
}

void drop_reference(CapContext* caps) {
  // A loop instead of recursion: a chain of givers may have any length. acq_rel, partner: the other drops.
  while (caps != nullptr && caps->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    CapContext* giver = caps->giver;
    delete caps;
    caps = giver;
  }
}

CapContext* no_rights() {
  static auto* nothing = new CapContext;  // Its own reference is never dropped.
  return nothing;
}

Result<CapContext*> pass_on(CapContext* giver, const Capabilities& rights) {
  if (giver != nullptr) {
    const Capabilities& has = giver->rights;
    const auto wider = [](std::string_view capability) {
      return denied(capability, " cannot be passed on wider than it is held, or without being held");
    };
    if (rights.spawn && (!has.spawn || rights.spawn->max_tasks > has.spawn->max_tasks ||
                         !has.spawn->task_budget.covers(rights.spawn->task_budget))) {
      return wider("CapSpawn");
    }
    if (rights.budget && (!has.budget || !has.budget->limit.covers(rights.budget->limit))) return wider("CapBudget");
    if (rights.channel && (!has.channel || rights.channel->max_channels > has.channel->max_channels ||
                           rights.channel->max_buffer > has.channel->max_buffer)) {
      return wider("CapChannel");
    }
  }
  auto* made = new CapContext;
  made->giver = add_reference(giver);
  made->rights = rights;
  return made;
}

bool count_task(CapContext* caps) {
  return take_along(
      caps,
      [](CapContext* at) { return at->rights.spawn && at->tasks < at->rights.spawn->max_tasks && ++at->tasks > 0; },
      [](CapContext* at) { --at->tasks; });
}

void uncount_task(CapContext* caps) {
  undo_along(caps, [](CapContext* at) { --at->tasks; });
}

bool count_drawn(CapContext* caps, const Reserve& amount) {
  return take_along(
      caps,
      [&amount](CapContext* at) {
        // Invariant: drawn <= limit, so the difference is what is left.
        if (!at->rights.budget || !(Reserve(at->rights.budget->limit) - at->drawn).covers(amount)) return false;
        at->drawn += amount;
        return true;
      },
      [&amount](CapContext* at) { at->drawn -= amount; });
}

void uncount_drawn(CapContext* caps, const Reserve& amount) {
  undo_along(caps, [&amount](CapContext* at) { at->drawn -= amount; });
}

void ChannelPermit::acquire(std::size_t capacity) {
  CapContext* caps = current_rights();
  if (caps == nullptr) return;
  if (!caps->rights.channel)
    throw_error(denied("CapChannel", " is needed for a channel, and this task was not given it"));
  if (capacity > caps->rights.channel->max_buffer) {
    throw_error(denied("CapChannel", " does not allow this task a channel with so much room"));
  }
  const bool counted = take_along(
      caps,
      [](CapContext* at) {
        return at->rights.channel && at->channels < at->rights.channel->max_channels && ++at->channels > 0;
      },
      [](CapContext* at) { --at->channels; });
  if (!counted) throw_error(denied("CapChannel", " does not allow this task another channel"));
  holder_ = add_reference(caps);
}

void ChannelPermit::release() {
  undo_along(holder_, [](CapContext* at) { --at->channels; });
  drop_reference(holder_);
  holder_ = nullptr;
}

}  // namespace rota::fiber::detail
