// The limit of the rows about whole commands (P-12, P-16): posix_spawn and wait, one command at a time on each thread.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/bench.h"

namespace {

using bench::Figures;

bool spawn_true() {
  static char name[] = "true";
  char* argv[] = {name, nullptr};
  pid_t pid = 0;
  int status = 0;
  return posix_spawnp(&pid, name, nullptr, nullptr, argv, environ) == 0 && waitpid(pid, &status, 0) == pid &&
         status == 0;
}

// Nanoseconds for `count`.
double spawn_all(unsigned threads, std::uint64_t count, std::atomic<std::uint64_t>& done) {
  const std::uint64_t start = bench::now_ns();
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> group;
  for (unsigned i = 0; i < threads; ++i) {
    group.emplace_back([&] {
      while (taken.fetch_add(1) < count) done += spawn_true() ? 1 : 0;
    });
  }
  for (std::thread& thread : group) thread.join();
  return static_cast<double>(bench::now_ns() - start);
}

Figures run_true(unsigned threads, std::uint64_t count) {
  std::atomic<std::uint64_t> done{0};
  std::uint64_t runs = 0;
  const double us = bench::measure([&] {
    ++runs;
    return spawn_all(threads, count, done) / 1000 / static_cast<double>(count);
  });
  bench::expect(done / runs, count);
  return {us};
}

Figures run_one(unsigned, std::uint64_t runs) {
  std::atomic<std::uint64_t> done{0};
  std::vector<double> ms;
  for (std::uint64_t i = 0; i < runs; ++i) ms.push_back(spawn_all(1, 1, done) / 1e6);
  bench::expect(done / runs, 1);
  return {bench::median(std::move(ms))};
}

constexpr bench::Work kWorks[] = {{"run_true", 2'000, run_true}, {"run_one", 21, run_one}};

}  // namespace

int main(int argc, char** argv) { return bench::main_of(argc, argv, kWorks); }
