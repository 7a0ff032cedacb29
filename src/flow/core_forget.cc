// How the core forgets tasks that have ended (G-9). flow/core.h says when their memory is released.
#include <algorithm>
#include <utility>

#include "flow/core.h"

namespace rota::flow::detail {

namespace {
constexpr std::uint32_t kFewTasks = 64;  // Not worth a pass.
}  // namespace

Result<void> Core::forget(std::string_view id) {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
    ROTA_TRY(roster_.forget(ref));
    forget(entry(ref), effects);
    collect(executor_->now(), effects);
  }
  perform(effects);
  return {};
}

std::size_t Core::forget_ended() {
  Effects effects;
  std::size_t count = 0;
  {
    sync::MutexLock lock(mutex_);
    count = forget_oldest(0, effects);
    collect(executor_->now(), effects);
  }
  perform(effects);
  return count;
}

// Forgets the tasks that ended first, until at most `most` are left.
std::size_t Core::forget_oldest(std::uint64_t most, Effects& effects) {
  std::size_t count = 0;
  while (ended_ > most) {
    const End end = ends_.front();
    ends_.pop_front();
    Entry& e = entry(end.task);
    if (e.end != end.number) continue;  // It was retried, or forgotten by its name.
    const Result<void> forgotten = roster_.forget(e.ref);
    ROTA_ASSERT(forgotten.ok(), "task ", e.ref, " has an end");
    forget(e, effects);
    count += 1;
  }
  return count;
}

// The roster has forgotten the task.
void Core::forget(Entry& e, Effects& effects) {
  not_ended(e);
  forgotten_ += 1;
  effects.garbage.push_back(std::make_shared<Stage>(std::exchange(e.stage, Stage())));
  if (roster_.is_removable(e.ref)) effects.garbage.push_back(std::exchange(e.outputs, nullptr));
}

// The task's End, if it has one, is not valid any more.
void Core::not_ended(Entry& e) {
  if (e.end != 0) ended_ -= 1;
  e.end = 0;
}

// Removes the forgotten tasks that nothing needs, once they are half of all tasks: then the pass over all tasks is paid
// for by as many tasks that were submitted since the last one.
void Core::remove_forgotten(Effects& effects) {
  if (roster_.removable() < std::max(kFewTasks, roster_.dag().size() / 2)) return;
  const auto count = [](const Roster& roster, SchedulerStats& sum, std::uint64_t sign) {
    sum.succeeded += sign * roster.count(TaskState::kSucceeded);
    sum.failed += sign * roster.count(TaskState::kFailed);
    sum.cancelled += sign * roster.count(TaskState::kCancelled);
  };
  count(roster_, removed_, 1);
  const std::vector<bool> kept = roster_.compact();
  count(roster_, removed_, ~std::uint64_t{0});  // Minus what is left.
  std::vector<std::uint32_t> numbers(kept.size(), SliceLog::kGone);
  std::vector<std::shared_ptr<Entry>> entries;
  for (std::uint32_t i = 0; i < kept.size(); ++i) {
    std::shared_ptr<Entry>& e = entries_[i];
    if (kept[i]) {
      numbers[i] = static_cast<std::uint32_t>(entries.size());
      entries.push_back(std::move(e));
      entries.back()->ref = TaskRef(numbers[i] + 1);
      continue;
    }
    removed_.tasks += 1;
    effects.garbage.push_back(std::move(e));
  }
  std::erase_if(ends_, [&](const End& end) {
    const std::uint32_t number = numbers[end.task.value() - 1];
    return number == SliceLog::kGone || entries[number]->end != end.number;
  });
  for (End& end : ends_) end.task = TaskRef(numbers[end.task.value() - 1] + 1);
  entries_ = std::move(entries);
  slices_.renumber(numbers);
}

}  // namespace rota::flow::detail
