// The executor of the thread pool: stages run as fibers.
//
// A task called the keeper holds a nursery open as long as the scheduler lives. What a fiber of the runtime starts is
// launched into that nursery, on the deque of the fiber's thread worker; what an outside thread starts arrives through
// the runtime's queue and is counted in coming_ until then. At the end no task is live and nothing new arrives;
// shut_down() waits until coming_ is 0, and then for the keeper, whose nursery waits for the rest.
//
// Each stage runs in its own scope. Cancelling the task cancels what the stage has started and interrupts its waits,
// and nothing else; the fiber runs other tasks afterwards.
#include <memory>
#include <utility>

#include "flow/core.h"
#include "rota/fiber.h"

namespace rota::flow {

namespace detail {
namespace {

class FiberExecutor final : public Executor {
 public:
  FiberExecutor(Core& core, std::unique_ptr<fiber::Runtime> owned, fiber::Runtime& runtime)
      : core_(core), owned_(std::move(owned)), runtime_(runtime) {
    keeper_ = runtime_.spawn([this] {
      fiber::Nursery nursery;
      nursery_ = &nursery;
      ready_.post();
      quit_.wait_uncancellable("the end of a scheduler");
      nursery.cancel();  // Ends the timers.
      (void)nursery.close();
    });
    ready_.wait_uncancellable("the start of a scheduler");
  }

  [[nodiscard]] Moment now() const override { return Moment{runtime_.now().count()}; }
  void start(Entry& entry) override {
    post([this, &entry] { core_.run(entry); });
  }
  Result<void> call(Core& core, Entry& entry, const std::function<Result<void>()>& body) override {
    // The stage cannot start anything in this scope, only in nested scopes of its own, which are closed when it
    // returns. So there is nothing to wait for at the end, and nobody may touch the scope after that.
    fiber::Nursery scope;
    core.enter(entry, &scope);
    struct Leave {
      Core& core;
      Entry& entry;
      ~Leave() { core.leave(entry); }
    } leave{core, entry};
    return body();
  }
  void wake_at(Moment due) override {
    post([this, due] {
      if (fiber::sleep_until(std::chrono::nanoseconds(due.ns)).ok()) core_.tick(due);
    });
  }
  [[nodiscard]] std::uint32_t worker() const override {
    const fiber::detail::ThreadWorker* worker = fiber::detail::current_worker();
    return worker == nullptr ? 0 : worker->index;
  }
  void shut_down() override {
    std::shared_ptr<fiber::Baton> baton;
    {
      sync::MutexLock lock(mutex_);
      if (coming_ > 0) baton = last_ = std::make_shared<fiber::Baton>();
    }
    // The tasks must end first, even if the task that destroys the scheduler is cancelled.
    if (baton != nullptr) baton->wait_uncancellable("the tasks of a scheduler");
    quit_.post();
    for (bool done = false; !done;) {
      try {
        keeper_.wait();
        done = true;
      } catch (const fiber::Cancelled&) {
        fiber::yield();
      }
    }
  }

 private:
  // Counts a start from outside until it is destroyed, whether it ran or was dropped.
  class Coming {
   public:
    explicit Coming(FiberExecutor* owner) : owner_(owner) {
      sync::MutexLock lock(owner->mutex_);
      owner->coming_ += 1;
    }
    Coming(Coming&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    ~Coming() {
      if (owner_ == nullptr) return;
      std::shared_ptr<fiber::Baton> last;
      {
        sync::MutexLock lock(owner_->mutex_);
        if (--owner_->coming_ == 0) last = owner_->last_;
      }
      if (last != nullptr) last->post();
    }

   private:
    FiberExecutor* owner_;
  };

  template <class F>
  void post(F f) {
    const fiber::detail::ThreadWorker* worker = fiber::detail::current_worker();
    // In a metered runtime a launch would be charged to the calling stage, which may have no spawns left.
    if (worker != nullptr && worker->runtime == runtime_.core() && (worker->hooks & fiber::detail::kHookMeter) == 0) {
      nursery_->launch(std::move(f));
    } else {  // Waits while the runtime's queue is full.
      (void)runtime_.spawn([this, coming = Coming(this), f = std::move(f)] { nursery_->launch(f); });
    }
  }

  Core& core_;
  const std::unique_ptr<fiber::Runtime> owned_;
  fiber::Runtime& runtime_;
  fiber::Task<void> keeper_;
  fiber::Nursery* nursery_ = nullptr;  // Owned by the keeper. Set before ready_.
  fiber::Baton ready_, quit_;
  sync::Mutex mutex_;
  std::uint64_t coming_ ROTA_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<fiber::Baton> last_ ROTA_GUARDED_BY(mutex_);
};

std::unique_ptr<IScheduler> make(const SchedulerConfig& config, std::unique_ptr<fiber::Runtime> owned,
                                 fiber::Runtime& runtime, std::shared_ptr<ILogger> logger) {
  auto core = std::make_unique<Core>(config, ~std::uint64_t{0}, std::move(logger));
  core->set_executor(std::make_unique<FiberExecutor>(*core, std::move(owned), runtime));
  return make_scheduler(std::move(core));
}

}  // namespace
}  // namespace detail

Result<std::unique_ptr<IScheduler>> create_thread_pool_scheduler(const SchedulerConfig& config,
                                                                 std::shared_ptr<ILogger> logger) {
  ROTA_TRY_ASSIGN(const SchedulerConfig full, config.checked());
  ROTA_TRY_ASSIGN(std::unique_ptr<fiber::Runtime> runtime, fiber::Runtime::create({.worker_count = full.workers}));
  fiber::Runtime& borrowed = *runtime;
  return detail::made_or_error([&] { return detail::make(full, std::move(runtime), borrowed, std::move(logger)); });
}

Result<std::unique_ptr<IScheduler>> create_thread_pool_scheduler(const SchedulerConfig& config,
                                                                 std::shared_ptr<ILogger> logger,
                                                                 fiber::Runtime& runtime) {
  if (logger == nullptr) logger = default_logger();
  SchedulerConfig wanted = config;
  wanted.workers = static_cast<std::uint32_t>(runtime.stats().workers.size());
  ROTA_TRY_ASSIGN(const SchedulerConfig full, wanted.checked());
  if (config.workers != 0 && config.workers != full.workers) {
    logger->log(ILogger::Level::kWarning, std::to_string(config.workers) +
                                              " workers were requested, but the given runtime has " +
                                              std::to_string(full.workers) + "; the request is ignored");
  }
  return detail::made_or_error([&] { return detail::make(full, nullptr, runtime, std::move(logger)); });
}

}  // namespace rota::flow
