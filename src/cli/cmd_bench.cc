// `rota bench [ROW...] [--dir DIR] [--quick]`: how fast this machine is at what Rota does.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/json_text.h"
#include "base/nearest.h"
#include "cli/machine_bench.h"
#include "cli/output.h"
#include "cli/subcommands.h"

namespace rota::cli {

namespace {

struct BenchOptions {
  std::vector<std::string> rows;
  std::string folder = ".";
  bool quick = false;
};

Result<std::vector<const BenchRow*>> chosen(const std::vector<std::string>& names) {
  std::vector<const BenchRow*> rows;
  if (names.empty()) {
    for (const BenchRow& row : bench_rows()) rows.push_back(&row);
    return rows;
  }
  std::vector<std::string> known;
  std::string list;
  for (const BenchRow& row : bench_rows()) {
    known.emplace_back(row.name);
    list += (list.empty() ? "" : ", ") + known.back();
  }
  for (const std::string& name : names) {
    std::size_t at = 0;
    while (at < known.size() && known[at] != name) ++at;
    if (at == known.size()) {
      const std::string_view near = nearest(name, known);
      return Error{ErrorCode::kInvalidArgument,
                   "there is no row '" + printable(name) + "'" +
                       (near.empty() ? "." : "; did you mean '" + std::string(near) + "'?") + " The rows are " + list};
    }
    rows.push_back(&bench_rows()[at]);
  }
  return rows;
}

Result<int> bench(const BenchOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::vector<const BenchRow*> rows, chosen(options.rows));
  BenchSetup setup{.folder = options.folder, .program = "/proc/self/exe", .quick = options.quick};
  std::error_code error;
  // A child would see itself at /proc/self/exe.
  if (const std::filesystem::path program = std::filesystem::read_symlink(setup.program, error); !error) {
    setup.program = program.string();
  }
  std::vector<BenchFigure> figures;
  for (const BenchRow* row : rows) {
    output.note("measuring " + std::string(row->meaning));
    Result<double> ns = row->measure(setup);
    if (!ns.ok()) return std::move(ns).take_error().in("row '" + std::string(row->name) + "'");
    figures.push_back({std::string(row->name), std::string(row->meaning), *ns});
  }
  output.benchmarks(figures);
  return 0;
}

}  // namespace

Subcommand bench_subcommand() {
  auto options = std::make_shared<BenchOptions>();
  return {.name = "bench",
          .meaning = "Measure how fast this machine is at what Rota does",
          .positionals = {positionals("ROW", &options->rows, "the rows to measure; default: all")},
          .options = {text("--dir", "DIR", &options->folder,
                           "the folder whose disk is measured; default: this one. Nothing is left there"),
                      flag("--quick", &options->quick, "a twentieth of the work, for a first impression")},
          .json = "{\"benchmarks\": [{\"name\", \"meaning\", \"ns\", \"per_second\"}]}",
          .footer =
              "The rows: switch, spawn (fibers); sync, record, group (the disk and the log on it); decision (the\n"
              "brain); process, task (programs, alone and as tasks of rota run). A task costs at least a process,\n"
              "and a record that nothing else waits for at least a sync. Each figure is the median of five rounds.",
          .examples = {"rota bench", "rota bench sync record --dir /var/lib/rota", "rota bench --quick --json"},
          .run = [options](Output& output) { return bench(*options, output); }};
}

}  // namespace rota::cli
