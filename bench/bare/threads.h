// Plain threads for the limits: a team that starts together, a barrier that spins, a futex, pages straight from the OS.
#pragma once

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/bench.h"

namespace bench {

// A barrier for `count` threads that each have a core. Reusable.
class SpinBarrier {
 public:
  explicit SpinBarrier(unsigned count) : count_(count) {}
  void wait() {
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) spin_pause();
  }

 private:
  const unsigned count_;
  alignas(64) std::atomic<unsigned> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
};

// Calls body(i) on `threads` threads that start together, this one being the first: ns from start to the last end.
template <typename Body>
double on_threads(unsigned threads, const Body& body) {
  SpinBarrier start(threads), end(threads);
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) {
    others.emplace_back([&, i] {
      start.wait();
      body(i);
      end.wait();
    });
  }
  start.wait();
  const std::uint64_t start_ns = now_ns();
  body(0);
  end.wait();
  const std::uint64_t end_ns = now_ns();
  for (std::thread& other : others) other.join();
  return static_cast<double>(end_ns - start_ns);
}

inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
inline void futex_wake_one(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Untouched memory, small pages only.
class Pages {
 public:
  explicit Pages(std::uint64_t bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail("not enough memory");
    madvise(at, bytes_, MADV_NOHUGEPAGE);
    data_ = static_cast<char*>(at);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* data() const { return data_; }

 private:
  std::uint64_t bytes_;
  char* data_;
};

}  // namespace bench
