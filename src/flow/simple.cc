// The executor of the simple scheduler: one stage at a time, on plain threads.
//
// The core picks one task at a time. One thread runs the loop: it runs the started task, or sleeps until something is
// due. A paused stage keeps its thread, asleep, and another thread takes over the loop; another one watches the clock
// if something becomes due while a stage runs. Therefore there are at most two threads more than stages paused at once,
// and one stage runs at a time (besides those that unwind because they were cancelled).
#include <deque>
#include <set>
#include <vector>

#include "flow/core.h"
#include "rota/clock.h"

namespace rota::flow {

namespace detail {
namespace {

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(Core& core) : core_(core) {
    sync::MutexLock lock(mutex_);
    add_thread();
  }

  [[nodiscard]] Moment now() const override { return Moment{system_clock().now().time_since_epoch().count()}; }
  void start(Entry& entry) override {
    sync::MutexLock lock(mutex_);
    queue_.push_back(&entry);
    changed_.notify_one();
  }
  Result<void> call(Core& /*core*/, Entry& /*entry*/, const std::function<Result<void>()>& body) override {
    return body();
  }
  void will_park() override {
    sync::MutexLock lock(mutex_);
    if (idle_ == 0) add_thread();
  }
  void wake_at(Moment due) override {
    sync::MutexLock lock(mutex_);
    due_.insert(due);
    if (idle_ == 0) add_thread();  // The loop is busy with a stage; another thread must watch the clock.
    changed_.notify_one();
  }
  [[nodiscard]] std::uint32_t worker() const override { return 0; }
  void shut_down() override {
    std::vector<sync::Thread> threads;
    {
      sync::MutexLock lock(mutex_);
      quit_ = true;
      changed_.notify_all();
      threads = std::move(threads_);
    }
    for (sync::Thread& thread : threads) thread.join();
  }

 private:
  void add_thread() ROTA_REQUIRES(mutex_) {
    idle_ += 1;  // The new thread will be idle soon.
    threads_.emplace_back([this] { loop(); });
  }
  void loop() {
    mutex_.lock();
    idle_ -= 1;
    while (!quit_) {
      if (!queue_.empty()) {
        Entry* entry = queue_.front();
        queue_.pop_front();
        mutex_.unlock();
        core_.run(*entry);
        mutex_.lock();
        continue;
      }
      if (!due_.empty() && *due_.begin() <= now()) {
        const Moment due = due_.extract(due_.begin()).value();
        mutex_.unlock();
        core_.tick(due);
        mutex_.lock();
        continue;
      }
      idle_ += 1;
      if (due_.empty()) {
        changed_.wait(mutex_);
      } else {
        changed_.wait_for(mutex_, std::chrono::nanoseconds(due_.begin()->ns - now().ns));
      }
      idle_ -= 1;
    }
    mutex_.unlock();
  }

  Core& core_;
  sync::Mutex mutex_;
  sync::CondVar changed_;
  std::deque<Entry*> queue_ ROTA_GUARDED_BY(mutex_);  // At most one task, and tasks that are told to stop.
  std::multiset<Moment> due_ ROTA_GUARDED_BY(mutex_);
  std::uint32_t idle_ ROTA_GUARDED_BY(mutex_) = 0;
  bool quit_ ROTA_GUARDED_BY(mutex_) = false;
  std::vector<sync::Thread> threads_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace detail

Result<std::unique_ptr<IScheduler>> create_simple_scheduler(const SchedulerConfig& config,
                                                            std::shared_ptr<ILogger> logger) {
  ROTA_TRY_ASSIGN(const SchedulerConfig full, config.checked());
  return detail::made_or_error([&] {
    auto core = std::make_unique<detail::Core>(full, 1, std::move(logger));
    core->set_executor(std::make_unique<detail::ThreadExecutor>(*core));
    return detail::make_scheduler(std::move(core));
  });
}

Result<std::unique_ptr<IScheduler>> create_scheduler(const SchedulerConfig& base, std::shared_ptr<ILogger> logger) {
  if (logger == nullptr) logger = default_logger();
  const SchedulerConfig config = config_from_environment(base, *logger);
  return config.kind == SchedulerKind::kSimple ? create_simple_scheduler(config, std::move(logger))
                                               : create_thread_pool_scheduler(config, std::move(logger));
}

}  // namespace rota::flow
