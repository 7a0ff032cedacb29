// HostWatch: what a running host writes about its records and reports: a log line for every dispatch (H-2), the output
// of programs on other machines, the density of submissions (H-3).
//
// Thread safety: on_record() and on_report() from the host's releaser; the other functions from any task.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/sync.h"
#include "fleet/record.h"
#include "fleet/state.h"
#include "host/density.h"
#include "host/host.h"
#include "host/host_settings.h"
#include "host/output_store.h"
#include "model/message.h"
#include "rota/fiber/sync.h"

namespace rota::cli {

class HostWatch final : public host::HostObserver {
 public:
  // `local` are the names of the workers that keep the output of their programs themselves.
  HostWatch(const host::HostConfig& config, std::set<std::string> local);

  // Reads the names of workers, and who is active. Before the first record.
  void begin(const fleet::State& state);
  void on_record(const fleet::Record& record) override;
  void on_report(const std::string& worker, const model::Report& report) override;

  // Keeps output until close(), and writes the density from time to time.
  void run();
  void close();

 private:
  void log_dispatch(const fleet::TaskAssigned& assigned);
  void log_worker(const fleet::WorkerChanged& changed);
  void write_density();

  const std::set<std::string> local_;
  host::OutputStore output_;
  const std::string density_path_;

  sync::Mutex mutex_;
  std::map<model::WorkerId, std::string> names_ ROTA_GUARDED_BY(mutex_);
  std::optional<host::Density> density_ ROTA_GUARDED_BY(mutex_);
  fiber::Event closed_;
};

}  // namespace rota::cli
