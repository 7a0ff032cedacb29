// Measures what limits Rota on this machine, in a few seconds: fibers, the disk, the ledger, decisions, processes, and
// tasks of `rota run`. `rota bench` shows the figures; bench/ compares Rota with others.
//
// Each figure is the median of several rounds, because a machine is rarely idle.
//
// Thread safety: functions without state. They block.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::cli {

// What it takes to do one thing once.
struct BenchFigure {
  std::string name{};
  std::string meaning{};
  double ns = 0;

  [[nodiscard]] double per_second() const { return ns > 0 ? 1e9 / ns : 0; }
};

struct BenchSetup {
  std::string folder{};   // For files, on the disk that is measured. Everything made there is removed.
  std::string program{};  // The rota program that runs tasks.
  bool quick = false;     // A twentieth of the work: for a first impression.
};

struct BenchRow {
  std::string_view name;
  std::string_view meaning;
  std::function<Result<double>(const BenchSetup&)> measure;  // Nanoseconds for one.
};

// All rows, in the order in which they are shown.
[[nodiscard]] const std::vector<BenchRow>& bench_rows();

}  // namespace rota::cli
