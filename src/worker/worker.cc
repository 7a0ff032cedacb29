// rota::Worker: an engine with what it needs of this machine.
#include "rota/worker.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/json_text.h"
#include "base/sync.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/time.h"
#include "worker/engine.h"
#include "worker/process_executor.h"
#include "worker/task_files.h"

namespace rota {

namespace {

// Lives of a worker under one name follow each other in different processes or within one. Wall time and process id
// tell the former apart, and the counter tells the latter apart.
model::Incarnation make_incarnation(std::int64_t wall_ns) {
  static sync::Atomic<std::uint64_t> count{0};
  const std::uint64_t number = hash_of(wall_ns, static_cast<std::int64_t>(::getpid()), count.fetch_add(1)).low;
  return model::Incarnation(number == 0 ? 1 : number);
}

WorkerOptions with_resources(WorkerOptions options) {
  model::Resources& resources = options.spec.resources;
  if (!options.detect_resources) return options;
  const model::Resources machine = machine_resources();
  if (resources.cpu_millis == 0) resources.cpu_millis = machine.cpu_millis;
  if (resources.memory_bytes == 0) resources.memory_bytes = machine.memory_bytes;
  if (resources.gpus.empty()) resources.gpus = machine.gpus;
  return options;
}

}  // namespace

struct Worker::Parts {
  explicit Parts(WorkerOptions given) : options(with_resources(std::move(given))), engine(options) {}

  const WorkerOptions options;
  // The engine's attempts use the executor and the cache, so these are destroyed after it.
  std::unique_ptr<worker::ResultCache> cache;
  std::unique_ptr<worker::TaskFiles> files;
  std::unique_ptr<worker::Executor> executor;
  worker::Engine engine;
};

Worker::Worker(WorkerOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}
Worker::~Worker() = default;

Result<void> Worker::handle(std::string type, TaskHandler handler) {
  return parts_->engine.handle(std::move(type), std::move(handler));
}

Result<void> Worker::run(bus::WorkerEnd& bus) {
  const WorkerOptions& options = parts_->options;
  if (!options.cache_directory.empty() && parts_->cache == nullptr) {
    std::error_code error;
    const std::string path = std::filesystem::absolute(options.cache_directory, error).string();
    if (error) {
      return Error{ErrorCode::kIoError, "cannot use the directory '" + printable(options.cache_directory, 200) +
                                            "' for results: " + error.message()};
    }
    parts_->cache = std::make_unique<worker::ResultCache>(path, options.cache_reuse);
  }
  if (options.spec.programs && parts_->executor == nullptr) {
    ROTA_TRY_ASSIGN(parts_->executor,
                    worker::ProcessExecutor::make({.directory = options.directory,
                                                   .cgroup = options.cgroup,
                                                   .grace = options.grace,
                                                   .stream_output = options.stream_output,
                                                   .whole_output = options.whole_output,
                                                   .has_devices = !options.spec.resources.gpus.empty(),
                                                   .secrets = options.secrets}));
  }
  ROTA_TRY(open_files());
  std::vector<model::CacheItem> cached;
  if (parts_->files != nullptr) {
    ROTA_TRY_ASSIGN(cached, fiber::blocking([&] { return parts_->files->cached(); }));
  }
  const std::int64_t now_ns = fiber::now().count();
  const std::int64_t offset_ns = options.wall_ns ? *options.wall_ns - now_ns : fiber::wall_offset().count();
  return parts_->engine.run(
      bus,
      {.executor = parts_->executor.get(),
       .cache = parts_->cache.get(),
       .files = parts_->files.get(),
       .cached = std::move(cached),
       .wall_offset_ns = offset_ns,
       .measure_wall_offset_ns = options.wall_ns ? nullptr : std::function([] { return fiber::wall_offset().count(); }),
       .incarnation = options.incarnation ? *options.incarnation : make_incarnation(offset_ns + now_ns)});
}

// Absolute paths, as a handler may change the directory of the process.
Result<void> Worker::open_files() {
  FileSources files = parts_->options.files;
  const bool host = files.put && files.get;
  if (parts_->files != nullptr || (files.directory.empty() && !host)) return {};
  for (std::string* path : {&files.directory, &files.cache_directory}) {
    if (path->empty()) continue;
    std::error_code error;
    *path = std::filesystem::absolute(*path, error).string();
    if (error) return Error{ErrorCode::kIoError, "cannot use the directory for files: " + error.message()};
  }
  if (files.directory.empty() && files.cache_directory.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "files of the host need a directory on this machine: files.cache_directory"};
  }
  parts_->files = std::make_unique<worker::TaskFiles>(std::move(files));
  return {};
}

void Worker::stop() { parts_->engine.stop(); }
void Worker::stop_tasks() { parts_->engine.stop_tasks(); }
const model::WorkerSpec& Worker::spec() const { return parts_->engine.spec(); }

}  // namespace rota
