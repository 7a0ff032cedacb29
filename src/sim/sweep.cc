#include "sim/sweep.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>
#include <utility>

#include "base/sim_hooks.h"
#include "rota/assert.h"
#include "sim/checkers.h"
#include "sim/world.h"

namespace rota::sim {

namespace {

constexpr std::uint64_t kChunk = 25;  // Seeds per process.

// Shared with the child, which may die at any moment.
struct Shared {
  std::uint64_t seed = 0;
  char assertion[1000] = {};
};
Shared* shared_of_child = nullptr;

void note_assertion(const AssertInfo& info) {
  if (shared_of_child == nullptr) return;
  const std::size_t size = std::min(info.message.size(), sizeof(Shared::assertion) - 1);
  std::memcpy(shared_of_child->assertion, info.message.data(), size);
  shared_of_child->assertion[size] = 0;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

// Runs in the child. What it learns goes through the pipe, line by line.
void run_chunk(const SweepOptions& options, std::uint64_t from, std::uint64_t to, int out, Shared* shared) {
  for (std::uint64_t seed = from; seed < to; ++seed) {
    shared->seed = seed;
    ::alarm(static_cast<unsigned>(options.seed_within.count()));
    const Scenario scenario = draw_scenario(seed, options.size);
    const Witness witness = run_scenario(scenario);
    std::vector<Violation> violations = check(witness);
    if (violations.empty() && options.twice_every > 0 && seed % options.twice_every == 0) {
      const Witness again = run_scenario(scenario);
      if (fingerprint(again) != fingerprint(witness)) {
        std::size_t at = 0;
        while (at < witness.log.size() && at < again.log.size() && witness.log[at].bytes == again.log[at].bytes) ++at;
        violations.push_back(
            {"determinism", "two runs of one seed differ from record " + std::to_string(at + 1) + " on"});
      }
    }
    std::string line = "done\t" + std::to_string(seed) + "\t" + std::to_string(total_tasks(scenario)) + "\t" +
                       std::to_string(witness.messages) + "\t" + std::to_string(witness.log.size()) + "\t" +
                       std::to_string(witness.ended.count()) + "\n";
    if (!violations.empty()) {
      line += "fail\t" + std::to_string(seed) + "\t" + violations.front().checker + "\t" +
              one_line(violations.front().what) + "\n";
    }
    write_all(out, line);
  }
#if defined(ROTA_SIM_MUTANTS)
  for (const sim_hooks::Mark* mark = sim_hooks::Mark::first; mark != nullptr; mark = mark->next) {
    write_all(out, "mark\t" + std::string(mark->name) + "\t" + std::to_string(mark->count) + "\n");
  }
#endif
}

struct Child {
  pid_t pid = -1;
  int in = -1;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  Shared* shared = nullptr;
  std::string text{};
};

Shared* make_shared_page() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ROTA_ASSERT(memory != MAP_FAILED, "no memory for the simulator's processes");
  return new (memory) Shared;
}

// Starts `body(pipe, shared)` in a process of its own.
template <class Body>
Child start_child(Body body) {
  Child child;
  child.shared = make_shared_page();
  int ends[2] = {-1, -1};
  ROTA_ASSERT(::pipe(ends) == 0, "no pipe for the simulator's processes");
  child.pid = ::fork();
  ROTA_ASSERT(child.pid >= 0, "cannot start a process for the simulator");
  if (child.pid == 0) {
    ::close(ends[0]);
    shared_of_child = child.shared;
    set_assert_hook(note_assertion);
    // The message goes to the parent; what the program itself writes about its end is not wanted here.
    if (std::FILE* nowhere = std::freopen("/dev/null", "w", stderr); nowhere == nullptr) ::_exit(3);
    body(ends[1], child.shared);
    ::_exit(0);
  }
  ::close(ends[1]);
  child.in = ends[0];
  return child;
}

// Reads what there is. False at the end.
bool read_some(Child& child) {
  char buffer[65536];
  const ssize_t got = ::read(child.in, buffer, sizeof buffer);
  if (got <= 0) return false;
  child.text.append(buffer, static_cast<std::size_t>(got));
  return true;
}

// Waits for its end. The violation that its death is, if it died.
Violation reap(Child& child) {
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  ::close(child.in);
  Violation violation;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (child.shared->assertion[0] != 0) {
      violation = {"assertion", one_line(child.shared->assertion)};
    } else if (signal == SIGALRM) {
      violation = {"hang", "the run did not end"};
    } else {
      violation = {"crash", "signal " + std::to_string(signal)};
    }
  } else if (WEXITSTATUS(status) != 0) {
    violation = {"crash", "exit status " + std::to_string(WEXITSTATUS(status))};
  }
  return violation;
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = line.find('\t');
    parts.emplace_back(line.substr(0, end));
    if (end == std::string_view::npos) return parts;
    line.remove_prefix(end + 1);
  }
}

class Sweeper {
 public:
  explicit Sweeper(const SweepOptions& options) : options_(options) {}

  SweepResult run() {
    for (std::uint64_t at = options_.from; at < options_.from + options_.seeds; at += kChunk) {
      waiting_.push_back({at, std::min(at + kChunk, options_.from + options_.seeds)});
    }
    while (!children_.empty() || (!waiting_.empty() && !enough())) {
      while (!enough() && !waiting_.empty() && children_.size() < static_cast<std::size_t>(options_.processes)) {
        const auto [from, to] = waiting_.front();
        waiting_.pop_front();
        Child child = start_child([&, from = from, to = to](int out, Shared* shared) {
          remove_guard(options_.mutant);
          run_chunk(options_, from, to, out, shared);
        });
        child.from = from;
        child.to = to;
        children_.push_back(std::move(child));
      }
      wait_for_one();
    }
    std::sort(result_.failures.begin(), result_.failures.end(),
              [](const SeedFailure& a, const SeedFailure& b) { return a.seed < b.seed; });
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool enough() const { return result_.failures.size() >= options_.failures_most; }

  void wait_for_one() {
    std::vector<pollfd> fds;
    for (const Child& child : children_) fds.push_back({child.in, POLLIN, 0});
    ::poll(fds.data(), fds.size(), -1);
    for (std::size_t i = fds.size(); i-- > 0;) {
      if (fds[i].revents == 0 || read_some(children_[i])) continue;
      finish(children_[i]);
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void finish(Child& child) {
    const Violation died = reap(child);
    std::string_view text = child.text;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      take(split(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!died.checker.empty()) {
      const std::uint64_t seed = child.shared->seed;
      result_.failures.push_back({seed, died});
      ++result_.seeds;
      if (seed + 1 < child.to) waiting_.push_front({seed + 1, child.to});
    }
    ::munmap(child.shared, sizeof(Shared));
  }

  void take(const std::vector<std::string>& parts) {
    if (parts[0] == "done" && parts.size() == 6) {
      ++result_.seeds;
      result_.tasks += std::stoull(parts[2]);
      result_.messages += std::stoull(parts[3]);
      result_.records += std::stoull(parts[4]);
      result_.simulated += std::chrono::nanoseconds(std::stoll(parts[5]));
    } else if (parts[0] == "fail" && parts.size() == 4) {
      result_.failures.push_back({std::stoull(parts[1]), {parts[2], parts[3]}});
    } else if (parts[0] == "mark" && parts.size() == 3) {
      result_.marks[parts[1]] += std::stoull(parts[2]);
    }
  }

  const SweepOptions& options_;
  SweepResult result_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> waiting_;
  std::vector<Child> children_;
};

}  // namespace

SweepResult sweep(const SweepOptions& options) { return Sweeper(options).run(); }

Violation judge_apart(const Scenario& scenario, const std::string& mutant, std::chrono::seconds within) {
  Child child = start_child([&](int out, Shared*) {
    remove_guard(mutant);
    ::alarm(static_cast<unsigned>(within.count()));
    const std::vector<Violation> violations = check(run_scenario(scenario));
    if (!violations.empty()) write_all(out, violations.front().checker + "\t" + one_line(violations.front().what));
  });
  while (read_some(child)) {
  }
  Violation violation = reap(child);
  if (violation.checker.empty() && !child.text.empty()) {
    const std::vector<std::string> parts = split(child.text);
    violation = {parts[0], parts.size() > 1 ? parts[1] : ""};
  }
  ::munmap(child.shared, sizeof(Shared));
  return violation;
}

bool has_mutants() {
#if defined(ROTA_SIM_MUTANTS)
  return true;
#else
  return false;
#endif
}

bool remove_guard(std::string_view name) {
#if defined(ROTA_SIM_MUTANTS)
  sim_hooks::removed_guard = name.empty() ? 0 : sim_hooks::hash_of_name(name);
  return true;
#else
  return name.empty();
#endif
}

std::string log_file(const Witness& witness) {
  std::string bytes;
  fleet::LogWriter writer(bytes);
  for (const StoredRecord& stored : witness.log) writer.append(stored.record);
  writer.finish();
  return bytes;
}

}  // namespace rota::sim
