#include "rota/flow/progress.h"

#include <unistd.h>

#include <string>

#include "base/sync.h"

namespace rota::flow {

struct ProgressDisplay::State {
  explicit State(std::FILE* file) : out(file), terminal(isatty(fileno(file)) == 1) {}

  sync::Mutex mutex;
  std::FILE* out ROTA_GUARDED_BY(mutex);  // Null when finished.
  const bool terminal;
  int shown ROTA_GUARDED_BY(mutex) = -1;
  bool open_line ROTA_GUARDED_BY(mutex) = false;

  void show(const WorkflowProgress& progress) {
    const int percent = static_cast<int>(progress.fraction * 100);
    sync::MutexLock lock(mutex);
    // On a terminal, for each percent and each change of the running tasks; elsewhere for each 10 %.
    const int key = terminal ? percent * 1000 + static_cast<int>(progress.running % 1000) : percent / 10;
    if (out == nullptr || key == shown) return;
    shown = key;
    constexpr int kWidth = 30;
    std::string bar(static_cast<std::size_t>(percent * kWidth / 100), '#');
    bar.resize(kWidth, '.');
    std::string line(progress.id);
    line += " [" + bar + "] " + std::to_string(percent) + " %  " + std::to_string(progress.ended) + "/" +
            std::to_string(progress.tasks) + " done, " + std::to_string(progress.running) + " running";
    if (progress.failed > 0) line += ", " + std::to_string(progress.failed) + " failed";
    std::fprintf(out, terminal ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(out);
    open_line = terminal;
  }
  void finish() {
    sync::MutexLock lock(mutex);
    if (out != nullptr && open_line) std::fputc('\n', out);
    out = nullptr;
  }
};

ProgressDisplay::ProgressDisplay(std::FILE* out) : state_(std::make_shared<State>(out)) {}
ProgressDisplay::~ProgressDisplay() { finish(); }
WorkflowEngine::OnProgress ProgressDisplay::observer() {
  return [state = state_](const WorkflowProgress& progress) { state->show(progress); };
}
void ProgressDisplay::finish() { state_->finish(); }

}  // namespace rota::flow
