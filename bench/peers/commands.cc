// The peers of `rota run`: make, ninja, GNU parallel and xargs. One source, a program a peer; BENCH_TOOL is which.
#include "common/commands.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace {

using bench::Arguments;
using bench::Scratch;

constexpr std::string_view kTool = BENCH_TOOL;

// A target for each task, none of which ever comes to be. make runs a command without shell characters itself.
Arguments make(const Scratch& folder, unsigned threads, std::uint64_t count, const std::string& command) {
  std::string targets;
  std::string rules;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string target = "t" + std::to_string(i);
    targets += " " + target;
    rules += target + ":\n\t@" + command + "\n";
  }
  bench::write_file(folder.file("Makefile"), "all:" + targets + "\n" + rules);
  return {"make", "-s", "-C", folder.file(""), "-j" + std::to_string(threads)};
}

// ninja starts every command with a shell.
Arguments ninja(const Scratch& folder, unsigned threads, std::uint64_t count, const std::string& command) {
  std::string text = "rule r\n  command = " + command + "\n";
  for (std::uint64_t i = 0; i < count; ++i) text += "build t" + std::to_string(i) + ": r\n";
  bench::write_file(folder.file("build.ninja"), text);
  return {"ninja", "-C", folder.file(""), "-j" + std::to_string(threads)};
}

void write_numbers(const Scratch& folder, std::uint64_t count) {
  std::string numbers;
  for (std::uint64_t i = 0; i < count; ++i) numbers += std::to_string(i) + "\n";
  bench::write_file(folder.file("numbers"), numbers);
}

// Both pass the number as an argument, which the command ignores.
Arguments parallel(const Scratch& folder, unsigned threads, std::uint64_t count, const std::string& command) {
  write_numbers(folder, count);
  return {"parallel", "--will-cite", "-j" + std::to_string(threads), "-a", folder.file("numbers"), command};
}
Arguments xargs(const Scratch& folder, unsigned threads, std::uint64_t count, const std::string& command) {
  write_numbers(folder, count);
  return {"xargs", "-a", folder.file("numbers"), "-P", std::to_string(threads), "-n", "1", command};
}

Arguments prepare(const Scratch& folder, unsigned threads, std::uint64_t count, const std::string& command) {
  if (kTool == "make") return make(folder, threads, count, command);
  if (kTool == "ninja") return ninja(folder, threads, count, command);
  if (kTool == "parallel") return parallel(folder, threads, count, command);
  return xargs(folder, threads, count, command);
}

bench::Figures run_true(unsigned threads, std::uint64_t count) { return bench::run_true(prepare, threads, count); }
bench::Figures run_one(unsigned threads, std::uint64_t runs) { return bench::run_one(prepare, threads, runs); }

constexpr bench::Work kWorks[] = {{"run_true", 2'000, run_true}, {"run_one", 21, run_one}};

}  // namespace

int main(int argc, char** argv) { return bench::main_of(argc, argv, kWorks); }
