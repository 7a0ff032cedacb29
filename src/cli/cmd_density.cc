// `rota density [WHERE] [-o FILE]`: draws how many tasks were submitted and how many workers were active, over time.
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

#include "base/json_text.h"
#include "cli/density_plot.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/remote_host.h"
#include "cli/subcommands.h"

namespace rota::cli {

namespace {

constexpr std::string_view kFile = "task_worker_density.json";

struct DensityOptions {
  std::string where;
  std::string out;
};

// The text of the file, of the file in a folder, or of a host.
Result<std::string> read_density(const std::string& given) {
  std::string where = given;
  if (where.empty()) {
    ROTA_TRY_ASSIGN(where, host_target(""));
  }
  if (is_url(where)) {
    ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, RemoteHost::open(where));
    ROTA_TRY_ASSIGN(net::HttpResponse response, host->ask({.target = "/v1/density"}));
    return std::move(response.body);
  }
  std::error_code error;
  const std::string path = std::filesystem::is_directory(where, error) ? where + "/" + std::string(kFile) : where;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::kNotFound,
                 "'" + printable(path, 300) +
                     "' cannot be read; a host writes it with HOST_METRICS_ENABLE_DENSITY_PLOT=1, "
                     "to HOST_METRICS_DIR or its state folder"};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<int> density(const DensityOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::string text, read_density(options.where));
  ROTA_TRY_ASSIGN(const DensityData data, parse_density(text));
  const std::string svg = density_svg(data);
  if (options.out.empty()) {
    output.document(svg);
    return 0;
  }
  std::ofstream file(options.out, std::ios::binary | std::ios::trunc);
  file << svg;
  file.close();
  if (!file) return Error{ErrorCode::kIoError, "'" + printable(options.out, 300) + "' could not be written"};
  return 0;
}

}  // namespace

Subcommand density_subcommand() {
  auto options = std::make_shared<DensityOptions>();
  Option where_option = positional("WHERE", &options->where,
                                   "a task_worker_density.json, its folder, or the URL of a host; default: the host");
  return {
      .name = "density",
      .meaning = "Draw submissions and active workers over time as SVG",
      .positionals = {std::move(where_option)},
      .options = {text("-o,--output", "FILE", &options->out, "the file to write; default: standard output")},
      .footer = "The host records the numbers with HOST_METRICS_ENABLE_DENSITY_PLOT=1 (host.density).",
      .examples = {"rota density /var/lib/rota -o density.svg", "rota density https://rota.example:7070 > density.svg"},
      .run = [options](Output& output) { return density(*options, output); }};
}

}  // namespace rota::cli
