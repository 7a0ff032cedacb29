// Our part of the rows about whole commands: `rota run` of so many `true` (P-12) and of one, `rota validate` of a large
// file, the size of the binary (P-16). The command is the build's own, ROTA_COMMAND.
#include <cstdint>
#include <filesystem>
#include <string>

#include "common/commands.h"
#include "rota.h"

namespace {

using bench::Figures;

// One stage, a task for each number; the command as a list, so that no shell is started for it. Decisions are durable
// before they act: that is the default.
bench::Arguments prepare(const bench::Scratch& folder, unsigned threads, std::uint64_t count,
                         const std::string& command) {
  std::string text = "apiVersion: rota/v1\nspec:\n  stages:\n    - name: t\n      run: [\"" + command + "\"]\n";
  if (count > 1) {
    text += "      matrix: {i: [0";
    for (std::uint64_t i = 1; i < count; ++i) text += ", " + std::to_string(i);
    text += "]}\n";
  }
  bench::write_file(folder.file("w.yaml"), text);
  return {ROTA_COMMAND, "run", folder.file("w.yaml"), "--jobs", std::to_string(threads)};
}

Figures run_true(unsigned threads, std::uint64_t count) { return bench::run_true(prepare, threads, count); }
Figures run_one(unsigned threads, std::uint64_t runs) { return bench::run_one(prepare, threads, runs); }

// Milliseconds to read and check a file of `count` stages, each behind the one before; and what the command weighs
// without its symbols, in MB.
Figures run_yaml(unsigned, std::uint64_t count) {
  const bench::Scratch folder;
  std::string text = "apiVersion: rota/v1\nmetadata: {name: large}\nspec:\n  stages:\n";
  for (std::uint64_t i = 0; i < count; ++i) {
    text += "    - name: stage-" + std::to_string(i) + "\n      run: ./work --part " + std::to_string(i) + "\n";
  }
  bench::write_file(folder.file("w.yaml"), text);
  const bench::Arguments command = {ROTA_COMMAND, "validate", folder.file("w.yaml")};
  const double ms = bench::measure([&] { return bench::run_tool(folder, command) / 1e6; });
  const std::string said = bench::file_text(folder.file("out"));
  bench::expect(said.find(std::to_string(count) + " tasks") != std::string::npos ? count : 0, count);
  bench::run_tool(folder, {"strip", "-o", folder.file("stripped"), ROTA_COMMAND});
  return {ms, static_cast<double>(std::filesystem::file_size(folder.file("stripped"))) / 1e6};
}

constexpr bench::Work kWorks[] = {
    {"run_true", 2'000, run_true},
    {"run_one", 21, run_one},
    {"yaml_10000", 10'000, run_yaml},
};

}  // namespace

std::span<const bench::Work> bench::rota_run_works() { return kWorks; }
