// The log's queue, its thread and its output. See base/log.h.
//
// Two locks, in this order:
//   output   held while a piece is written; its holder may take the queue's contents out, so lines stay in order
//   queue    held for a copy of a line
// Any thread may write the queue out (drain()): the log's thread, a flush, a fatal line, an error line that found no
// room. Therefore flush is drain(): an earlier drain holds `output` until its lines are written.
//
// The thread sleeps until a first line wakes it, and after writing it waits a few milliseconds while lines accumulate:
// a burst pays for one wake-up (6 to 9 us), not for one per line.
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log_format.h"
#include "base/sync.h"

namespace rota {
namespace {

constexpr Duration kLinger = std::chrono::milliseconds(10);
constexpr std::size_t kUsualLineBytes = 256;
constexpr std::size_t kLeastQueueBytes = std::size_t{64} << 10;

// The output of the log. The descriptor is closed by us unless it is stderr.
struct Output {
  int fd = STDERR_FILENO;
  std::string file{};
  std::vector<std::string>* capture = nullptr;
  bool complained = false;  // An error of this file was reported.
};

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {
      pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};  // The descriptor is non-blocking.
      ::poll(&wait, 1, -1);
    } else if (count == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

Result<int> open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0) return fd;
  return Error{ErrorCode::kIoError, "the log file " + path + " cannot be opened: " + std::strerror(errno)}.with("path",
                                                                                                                path);
}

thread_local bool t_inside = false;  // This thread is in the log's code and may hold its locks.

struct InsideScope {
  InsideScope() noexcept { t_inside = true; }
  InsideScope(const InsideScope&) = delete;
  InsideScope& operator=(const InsideScope&) = delete;
  ~InsideScope() { t_inside = false; }
};

class Log {
 public:
  // Never destroyed: other threads may log while the process ends.
  static Log& get() {
    static Log* const log = new Log();
    return *log;
  }

  void write(LogLevel level, const char* file, int line, std::string_view message,
             std::initializer_list<LogField> fields) {
    if (t_inside) return;  // A clock or an allocator logs: no line within a line.
    const InsideScope inside;
    const LogRecord record{level, now(), file, line, message, {fields.begin(), fields.size()}};
    std::string text;
    text.reserve(kUsualLineBytes);
    format_log(format_.load(std::memory_order_relaxed), record, text);
    if (enqueue(level, record.time, text)) drain();
  }

  void drain() {
    const sync::MutexLock output_lock(output_mutex_);
    drain_locked();
  }

  // For a process that is about to abort: writes what can be written without waiting.
  void drain_for_abort() noexcept {
    if (t_inside || !output_mutex_.try_lock()) return;
    drain_locked();
    output_mutex_.unlock();
  }

  Result<void> start(LogOptions options) {
    int fd = STDERR_FILENO;
    if (!options.file.empty()) {
      ROTA_TRY_ASSIGN(fd, open_file(options.file));
    }
    stop();
    {
      const sync::MutexLock output_lock(output_mutex_);
      drain_locked();
      replace_fd(fd);
      output_.file = std::move(options.file);
      const sync::MutexLock queue_lock(queue_mutex_);
      queue_bytes_ = std::max(options.queue_bytes, kLeastQueueBytes);
      pending_.reserve(queue_bytes_);
      writing_.reserve(queue_bytes_);
      synchronous_ = options.synchronous;
    }
    format_.store(options.format, std::memory_order_relaxed);
    clock_.store(options.clock != nullptr ? options.clock : &system_clock(), std::memory_order_release);
    set_log_level(options.level);
    if (!options.synchronous) {
      const sync::MutexLock lifecycle(thread_mutex_);
      {
        const sync::MutexLock queue_lock(queue_mutex_);
        stopping_ = false;
      }
      thread_ = sync::Thread([this] { run(); });
    }
    return {};
  }

  void stop() {
    const sync::MutexLock lifecycle(thread_mutex_);
    if (thread_.joinable()) {
      {
        const sync::MutexLock queue_lock(queue_mutex_);
        stopping_ = true;
        synchronous_ = true;
        wake_.notify_one();
      }
      thread_.join();
    }
    drain();
  }

  Result<void> reopen() {
    const sync::MutexLock output_lock(output_mutex_);
    drain_locked();
    if (output_.file.empty()) return {};
    ROTA_TRY_ASSIGN(const int fd, open_file(output_.file));
    replace_fd(fd);
    return {};
  }

  LogStats stats() {
    const sync::MutexLock queue_lock(queue_mutex_);
    return {lines_, lost_, write_errors_};
  }

  // The settings that a capture replaces.
  struct Front {
    std::vector<std::string>* capture = nullptr;
    bool synchronous = true;
    LogFormat format = LogFormat::kText;
    const Clock* clock = nullptr;
    LogLevel level = LogLevel::kWarn;
  };
  Front exchange(Front next) {
    const sync::MutexLock output_lock(output_mutex_);
    drain_locked();
    Front before{.capture = std::exchange(output_.capture, next.capture),
                 .format = format_.exchange(next.format),
                 .clock = clock_.exchange(next.clock != nullptr ? next.clock : &system_clock()),
                 .level = log_level()};
    const sync::MutexLock queue_lock(queue_mutex_);
    before.synchronous = std::exchange(synchronous_, next.synchronous);
    set_log_level(next.level);
    return before;
  }
  std::vector<std::string> copy(const std::vector<std::string>& captured) {
    const sync::MutexLock output_lock(output_mutex_);
    return captured;
  }

 private:
  WallTime now() const {
    const Clock* clock = clock_.load(std::memory_order_acquire);  // Pairs with the release of start().
    return clock != nullptr ? clock->wall() : system_clock().wall();
  }

  // Returns whether the caller must write the queue out.
  bool enqueue(LogLevel level, WallTime time, const std::string& line) {
    while (true) {
      {
        const sync::MutexLock queue_lock(queue_mutex_);
        const std::size_t room = queue_bytes_ - pending_.size();
        const std::size_t notice = lost_ != reported_ ? 200 : 0;
        if (line.size() + notice <= room) {
          if (notice != 0) append_lost_notice(time);
          pending_.append(line);
          ++lines_;
          if (synchronous_ || level == LogLevel::kFatal) return true;
          if (sleeping_ || (lingering_ && pending_.size() >= queue_bytes_ / 2)) {
            sleeping_ = lingering_ = false;
            wake_.notify_one();
          }
          return false;
        }
        if (level < LogLevel::kError) {
          ++lost_;
          return false;
        }
      }
      drain();  // An error line makes room itself; the work is bounded by the queue.
    }
  }

  void append_lost_notice(WallTime time) ROTA_REQUIRES(queue_mutex_) {
    const LogField field("lost", lost_ - reported_);
    reported_ = lost_;
    const LogRecord record{LogLevel::kWarn, time, __FILE__, __LINE__, "log lines were lost: the queue was full",
                           {&field, 1}};
    format_log(format_.load(std::memory_order_relaxed), record, pending_);
  }

  void drain_locked() ROTA_REQUIRES(output_mutex_) {
    {
      const sync::MutexLock queue_lock(queue_mutex_);
      writing_.swap(pending_);
    }
    if (writing_.empty()) return;
    if (output_.capture != nullptr) {
      for (std::size_t start = 0; start < writing_.size();) {
        const std::size_t end = writing_.find('\n', start);
        output_.capture->push_back(writing_.substr(start, end - start));
        start = end + 1;
      }
    } else if (!write_all(output_.fd, writing_)) {
      report_write_error();
    }
    writing_.clear();
  }

  // Once per start: a reader of stderr should see it, but not with every line.
  void report_write_error() ROTA_REQUIRES(output_mutex_) {
    {
      const sync::MutexLock queue_lock(queue_mutex_);
      ++write_errors_;
    }
    if (output_.fd == STDERR_FILENO || std::exchange(output_.complained, true)) return;
    write_all(STDERR_FILENO, "rota: the log file " + output_.file + " cannot be written; lines are being lost\n");
  }

  void replace_fd(int fd) ROTA_REQUIRES(output_mutex_) {
    if (output_.fd != STDERR_FILENO) ::close(output_.fd);
    output_.fd = fd;
    output_.complained = false;
  }

  void run() {
    t_inside = true;
    while (wait_for_lines()) {
      drain();
      const sync::MutexLock queue_lock(queue_mutex_);
      if (stopping_ || pending_.size() >= queue_bytes_ / 2) continue;
      lingering_ = true;
      wake_.wait_for(queue_mutex_, kLinger);
      lingering_ = false;
    }
  }
  // Returns false when the log stops and nothing is left.
  bool wait_for_lines() {
    const sync::MutexLock queue_lock(queue_mutex_);
    while (pending_.empty() && !stopping_) {
      sleeping_ = true;
      wake_.wait(queue_mutex_);
    }
    sleeping_ = false;
    return !pending_.empty();
  }

  // Settings that a line reads without a lock: a change is seen soon, and a line uses one consistent value of each.
  sync::Atomic<LogFormat> format_{LogFormat::kText};
  sync::Atomic<const Clock*> clock_{nullptr};

  sync::Mutex thread_mutex_;  // Taken before both others: starts and stops the thread.
  sync::Thread thread_ ROTA_GUARDED_BY(thread_mutex_);

  sync::Mutex output_mutex_;
  Output output_ ROTA_GUARDED_BY(output_mutex_);
  std::string writing_ ROTA_GUARDED_BY(output_mutex_);

  sync::Mutex queue_mutex_;
  sync::CondVar wake_;
  std::string pending_ ROTA_GUARDED_BY(queue_mutex_);  // Whole lines. size() <= queue_bytes_.
  std::size_t queue_bytes_ ROTA_GUARDED_BY(queue_mutex_) = kLeastQueueBytes;
  bool synchronous_ ROTA_GUARDED_BY(queue_mutex_) = true;
  bool stopping_ ROTA_GUARDED_BY(queue_mutex_) = false;
  bool sleeping_ ROTA_GUARDED_BY(queue_mutex_) = false;   // The thread waits for a first line.
  bool lingering_ ROTA_GUARDED_BY(queue_mutex_) = false;  // The thread waits while lines accumulate.
  std::uint64_t lines_ ROTA_GUARDED_BY(queue_mutex_) = 0;
  std::uint64_t lost_ ROTA_GUARDED_BY(queue_mutex_) = 0;
  std::uint64_t write_errors_ ROTA_GUARDED_BY(queue_mutex_) = 0;
  std::uint64_t reported_ ROTA_GUARDED_BY(queue_mutex_) = 0;  // The part of lost_ that was reported in the log.
};

static_assert(kLogLineMaxBytes + 200 <= kLeastQueueBytes, "the longest line must fit into the smallest queue");

}  // namespace

void detail::write_log(LogLevel level, const char* file, int line, std::string_view message,
                       std::initializer_list<LogField> fields) {
  Log::get().write(level, file, line, message, fields);
}

Result<void> start_log(LogOptions options) {
  ROTA_TRY(Log::get().start(std::move(options)));
  detail::set_assert_flush([]() noexcept { Log::get().drain_for_abort(); });
  static const int registered = std::atexit([] { stop_log(); });
  ROTA_ASSERT(registered == 0, "atexit");
  return {};
}

void stop_log() { Log::get().stop(); }
void flush_log() { Log::get().drain(); }
Result<void> reopen_log() { return Log::get().reopen(); }
LogStats log_stats() { return Log::get().stats(); }

void set_log_level(LogLevel level) noexcept {
  detail::g_log_level.store(static_cast<std::uint8_t>(level), std::memory_order_relaxed);
}
LogLevel log_level() noexcept { return static_cast<LogLevel>(detail::g_log_level.load(std::memory_order_relaxed)); }

struct LogCapture::Saved {
  std::vector<std::string> lines;
  Log::Front before;
};

LogCapture::LogCapture(LogLevel level, LogFormat format, const Clock* clock) : saved_(std::make_unique<Saved>()) {
  saved_->before = Log::get().exchange(
      {.capture = &saved_->lines, .synchronous = true, .format = format, .clock = clock, .level = level});
}

LogCapture::~LogCapture() { Log::get().exchange(saved_->before); }

std::vector<std::string> LogCapture::lines() const { return Log::get().copy(saved_->lines); }

bool LogCapture::contains(std::string_view text) const {
  for (const std::string& line : lines()) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace rota
