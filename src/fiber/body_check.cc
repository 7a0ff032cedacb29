#include "rota/fiber/detail/body_check.h"

#include <cstdio>
#include <unordered_map>

#include "base/sync.h"

namespace rota::fiber::detail {

namespace {

struct Captures {
  sync::Mutex mutex;
  std::unordered_map<const NurseryCore*, std::size_t> counts ROTA_GUARDED_BY(mutex);
  sync::Atomic<std::size_t> all{0};  // Relaxed: a scope's own captures were counted by its own thread, or by a child.
};
Captures& captures() {
  static Captures instance;
  return instance;
}

}  // namespace

void count_body_capture(const NurseryCore* core, int change) {
  Captures& table = captures();
  const sync::MutexLock lock(table.mutex);
  std::size_t& count = table.counts[core];
  count += static_cast<std::size_t>(change);
  if (count == 0) table.counts.erase(core);
  table.all.store(table.counts.size(), std::memory_order_relaxed);
}

void check_body_captures(const NurseryCore* core) {
  Captures& table = captures();
  if (table.all.load(std::memory_order_relaxed) == 0) return;
  std::size_t left = 0;
  {
    const sync::MutexLock lock(table.mutex);
    const auto found = table.counts.find(core);
    if (found != table.counts.end()) left = found->second;
  }
  if (left == 0) return;
  std::fprintf(
      stderr,
      "rota: %zu task(s) that have not ended refer to variables of the body of their with_scope() or "
      "with_deadline(), which are destroyed now: declare those variables before the scope, or join the tasks in "
      "the body\n",
      left);
}

}  // namespace rota::fiber::detail
