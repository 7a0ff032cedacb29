#include "cli/whole_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fleet/state.h"
#include "worker/owned_fd.h"

namespace rota::cli {

namespace {

constexpr std::string_view kSuffixes[2] = {".out", ".err"};

std::string stream_path(const std::string& logs, const model::AttemptId& id, std::string_view suffix) {
  return logs + "/" + std::to_string(id.task.value()) + "-" + std::to_string(id.attempt.value()) + std::string(suffix);
}

// The attempt that a file in the folder of the logs belongs to; none: it is not the output of one.
std::optional<model::AttemptId> attempt_of(const std::string& name) {
  std::string_view text = name;
  if (!text.ends_with(kSuffixes[0]) && !text.ends_with(kSuffixes[1])) return std::nullopt;
  text.remove_suffix(kSuffixes[0].size());
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, task);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, attempt);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  return model::AttemptId{model::TaskId(task), model::AttemptNumber(attempt)};
}

std::set<model::AttemptId> attempts_in(const std::string& logs) {
  std::set<model::AttemptId> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(logs, error), end; !error && it != end; it.increment(error)) {
    if (const auto id = attempt_of(it->path().filename().string())) found.insert(*id);
  }
  return found;
}

// The task with this attempt as its last one, if that succeeded; null otherwise.
const fleet::Task* task_that_succeeded(const fleet::State& state, const model::AttemptId& id) {
  const fleet::Workflow* workflow = state.find(id.task.workflow());
  if (workflow == nullptr || id.task.index() >= workflow->tasks.size()) return nullptr;
  const fleet::Task& task = workflow->tasks[id.task.index()];
  return task.state == graph::TaskState::kSucceeded && task.attempt == id.attempt ? &task : nullptr;
}

// A stage and an item, for comparing tasks of different runs.
std::string item_key(const model::Stage& stage, std::size_t item) {
  return stage.name + '\0' + (item < stage.items.size() ? stage.items[item] : std::string());
}

Error io_error(const std::string& what, int number) {
  return Error{ErrorCode::kIoError, what + ": " + std::generic_category().message(number)};
}

Result<void> write_all(int fd, std::string_view bytes, const char* name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {  // Somebody has made the pipe or terminal non-blocking.
      struct pollfd waiting{fd, POLLOUT, 0};
      if (::poll(&waiting, 1, -1) >= 0 || errno == EINTR) continue;
    }
    if (errno != EINTR) return io_error(std::string("cannot write to the standard ") + name, errno);
  }
  return {};
}

Result<void> copy_file(const std::string& path, int to, const char* name) {
  const worker::OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) return errno == ENOENT ? Result<void>() : io_error("cannot read " + path, errno);
  std::string block(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t size = ::read(file.fd, block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return io_error("cannot read " + path, errno);
    if (size == 0) return {};
    ROTA_TRY(write_all(to, std::string_view(block).substr(0, static_cast<std::size_t>(size)), name));
  }
}

}  // namespace

EarlierWork earlier_work(const fleet::State& state, const EarlierQuery& query) {
  EarlierWork work;
  std::vector<model::AttemptId> unread;
  for (const model::AttemptId& id : attempts_in(query.logs)) {
    if (query.fresh || task_that_succeeded(state, id) == nullptr) {
      discard(query.logs, id);
    } else {
      unread.push_back(id);
    }
  }
  const fleet::Workflow* resumed = query.resumed.is_none() ? nullptr : state.find(query.resumed);
  std::set<std::uint32_t> done;  // Tasks that will not run.
  for (const auto& [task, result] : *query.kept) done.insert(task);
  if (resumed != nullptr) {
    for (std::uint32_t t = 0; t < resumed->tasks.size(); ++t) {
      if (resumed->tasks[t].state == graph::TaskState::kSucceeded) work.done.push_back(t);
    }
    done.insert(work.done.begin(), work.done.end());
  }
  if (unread.empty()) return work;
  // By stage and item, the tasks that will not run; the first ones at the end.
  std::unordered_map<std::string, std::vector<std::uint32_t>> tasks;
  std::uint32_t task = 0;
  for (const model::Stage& stage : query.spec->stages) {
    for (std::size_t i = 0; i < std::max<std::size_t>(stage.items.size(), 1); ++i, ++task) {
      std::vector<std::uint32_t>& same = tasks[item_key(stage, i)];
      if (done.contains(task)) same.push_back(task);
    }
  }
  for (auto& [key, same] : tasks) std::reverse(same.begin(), same.end());
  for (const model::AttemptId& id : unread) {
    if (resumed != nullptr && id.task.workflow() == query.resumed) {
      work.unread.emplace(id.task.index(), id);
      continue;
    }
    const fleet::Workflow& older = state.at(id.task.workflow());
    const fleet::Task& its = older.tasks[id.task.index()];
    const auto same =
        tasks.find(item_key(older.spec.stages[its.stage], older.stages[its.stage].number(id.task.index())));
    if (same == tasks.end()) continue;
    while (!same->second.empty() && !work.unread.emplace(same->second.back(), id).second) same->second.pop_back();
    if (same->second.empty()) {
      discard(query.logs, id);
    } else {
      same->second.pop_back();
    }
  }
  return work;
}

Result<void> pass_on(const std::string& logs, const model::AttemptId& attempt, int out, int err) {
  ROTA_TRY(copy_file(stream_path(logs, attempt, kSuffixes[0]), out, "output"));
  ROTA_TRY(copy_file(stream_path(logs, attempt, kSuffixes[1]), err, "error output"));
  discard(logs, attempt);
  return {};
}

void discard(const std::string& logs, const model::AttemptId& attempt) {
  for (const std::string_view suffix : kSuffixes) ::unlink(stream_path(logs, attempt, suffix).c_str());
}

}  // namespace rota::cli
