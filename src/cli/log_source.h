// LogSource: reads the records of a log file (fleet/record.h), of the ledger of a host or of `rota run`, even while
// another process has it open, or of a host that is reached over HTTP. Every record is checked as it is read. Nothing
// is changed.
//
//   ROTA_TRY_ASSIGN(auto log, LogSource::open(place.log));
//   ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
//   for (;;) { ROTA_TRY_ASSIGN(const fleet::Record* record, log->next()); if (record == nullptr) break; ... }
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fleet/brain.h"
#include "fleet/record.h"
#include "rota/result.h"

namespace rota::cli {

class LogSource {
 public:
  virtual ~LogSource() = default;

  // A file, or the URL of a host. NotFound, IoError, PermissionDenied; Corrupt if the file is not a log.
  static Result<std::unique_ptr<LogSource>> open(const std::string& path);

  // Goes back to the start. Returns the brain as it was before the first record that next() returns: an empty one, or
  // the snapshot's if the first records were compacted.
  virtual Result<fleet::Brain> begin() = 0;
  // How many records were compacted.
  [[nodiscard]] virtual std::uint64_t compacted() const { return 0; }
  // The next record, or null at the end; valid until the next call. Corrupt, with the position of the first defect.
  virtual Result<const fleet::Record*> next() = 0;
  // After the end: lets next() return the records that were committed since.
  virtual Result<void> refresh() { return {}; }
  // The same, after a moment, or when there is one.
  virtual Result<void> wait();
  // The brain after the last record, from the start.
  Result<fleet::Brain> read_all();
  // A source over HTTP whose host stops answering waits for it from now on instead of failing; see RemoteHost.
  virtual void keep_trying(const std::function<void(const std::string& text)>& /*say*/) {}
  // How much was read, in thousandths.
  [[nodiscard]] virtual int permille() const = 0;

  // The record with this index, or null if there is none. May go back to the start: call begin() before next().
  virtual Result<const fleet::Record*> find(std::uint64_t index);
};

// The log of the host at this URL (remote_source.cc).
[[nodiscard]] Result<std::unique_ptr<LogSource>> open_remote_log(const std::string& url);

// Who writes the log now: "process 42 (rota)", or the host itself for a URL. None: nobody.
[[nodiscard]] Result<std::optional<std::string>> writer_of(const std::string& log);

}  // namespace rota::cli
