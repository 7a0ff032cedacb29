// `rota view [WHERE]`: the dashboard of a finished run, or of any log, in the browser.
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "bus/local.h"
#include "cli/daemon.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/subcommands.h"
#include "cli/view_ledger.h"
#include "cli/web_page.h"
#include "fleet/record.h"
#include "ledger/memory_ledger.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"

namespace rota::cli {

namespace {

struct ViewOptions {
  std::string where;
  std::int64_t port = 0;
};

// The records of a log file, as a ledger has them.
Result<std::unique_ptr<ledger::Ledger>> ledger_of_file(const std::string& path) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(path));
  ROTA_TRY(source->begin());
  auto ledger = std::make_unique<ledger::MemoryLedger>();
  Hash128 chain = fleet::first_chain();
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, source->next());
    if (record == nullptr) return std::unique_ptr<ledger::Ledger>(std::move(ledger));
    ledger::RecordBytes bytes{.index = record->index};
    chain = fleet::encode_record(*record, chain, bytes.bytes);
    ROTA_TRY(ledger->append({&bytes, 1}));
  }
}

Result<std::unique_ptr<ledger::Ledger>> open_ledger(const std::string& path) {
  if (std::filesystem::path(path).filename() != "ledger.db") return ledger_of_file(path);
  ROTA_TRY_ASSIGN(ledger::DiskReader reader, ledger::DiskReader::open(path));
  return std::unique_ptr<ledger::Ledger>(std::make_unique<ViewLedger>(std::move(reader)));
}

Result<void> serve(ledger::Ledger& ledger, DaemonSignals& signals, const ViewOptions& options, Output& output) {
  bus::LocalBus bus;
  host::HostOptions host_options;
  host_options.follow = true;
  host_options.read_only = true;
  host_options.snapshot_every = 0;
  host::Host host(ledger, bus.host(), std::move(host_options));
  Result<void> outcome;
  fiber::with_scope([&](fiber::Nursery& nursery) {
    fiber::Task<Result<void>> showing = nursery.spawn([&] { return host.run(); });
    Result<std::unique_ptr<WebPage>> page = WebPage::open(host, ledger, options.port);
    if (page.ok()) {
      fiber::Task<void> serving = nursery.spawn([&] { (*page)->run(); });
      output.note("the dashboard is at " + (*page)->url());
      output.note("Ctrl-C ends it");
      output.flush();
      for (Result<DaemonSignal> signal = signals.next(); signal.ok() && *signal != DaemonSignal::kStop;) {
        signal = signals.next();
      }
      (*page)->close();
      serving.wait();
    } else {
      outcome = std::move(page).take_error();
    }
    host.stop();
    if (Result<void> shown = showing.get(); outcome.ok()) outcome = std::move(shown);
  });
  return outcome;
}

Result<int> view(const ViewOptions& options, Output& output) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
  output.note(note);
  std::signal(SIGPIPE, SIG_IGN);
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  ROTA_TRY_ASSIGN(const std::unique_ptr<ledger::Ledger> ledger, open_ledger(place.log));
  ROTA_TRY_ASSIGN(const std::unique_ptr<DaemonSignals> signals, DaemonSignals::install(2));
  ROTA_TRY(runtime->run([&] { return serve(*ledger, *signals, options, output); }));
  return 0;
}

}  // namespace

Subcommand view_subcommand() {
  auto options = std::make_shared<ViewOptions>();
  return {.name = "view",
          .meaning = "Show a run in the browser: its graph, its timeline, and why everything waited, at any moment",
          .positionals = {where(&options->where)},
          .options = {number("--port", &options->port, 0, 65535, "listen there; default: a free port")},
          .footer =
              "Nothing is changed, also if the run is not finished: the page shows the log as it is now. For a host, "
              "open its own\naddress (`rota host --http`).",
          .examples = {"rota view nightly.yaml", "rota view /var/lib/rota"},
          .run = [options](Output& output) { return view(*options, output); }};
}

}  // namespace rota::cli
