// `rota ledger backup WHERE FILE`, `rota ledger restore FILE DIR`, `rota ledger copy FROM TO`, `rota ledger verify
// WHERE`: copies of the log of a run or a host, and whether a log or a copy is whole.
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/json_text.h"
#include "base/os_error.h"
#include "cli/ledger_copy.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/replay.h"
#include "cli/subcommands.h"
#include "ledger/disk_reader.h"

namespace rota::cli {

namespace {

namespace fs = std::filesystem;

struct LedgerOptions {
  std::string action;
  std::string from;
  std::string to;
};

Error wrong_use(const std::string& what) {
  return Error{
      ErrorCode::kInvalidArgument,
      what +
          "; use `rota ledger backup WHERE FILE`, `rota ledger restore FILE DIR`, `rota ledger copy FROM TO` or "
          "`rota ledger verify WHERE`"};
}

Result<ledger::DiskReader> open_ledger(const std::string& path) {
  if (path.find("://") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "a backup is made on the host's machine, from its state folder; '" + printable(path) + "' is a URL"};
  }
  return ledger::DiskReader::open(path);
}

// The copy is read again: a file that nobody can open is no backup.
Result<void> copy(ledger::DiskReader& reader, const std::string& to) {
  ROTA_TRY(reader.back_up(to));
  ROTA_TRY_ASSIGN(reader, ledger::DiskReader::open(to));
  return {};
}

using Action = LedgerCopy::Action;

Result<void> back_up(const LedgerOptions& options, Output& output) {
  if (is_etcd(options.from)) {
    ROTA_TRY_ASSIGN(const CopiedLedger copied, copy_ledger(options.from, options.to));
    output.ledger_copied({Action::kBackup, options.from, options.to, copied.last_index, copied.first_index});
    return {};
  }
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.from, &note));
  output.note(note);
  ROTA_TRY_ASSIGN(ledger::DiskReader reader, open_ledger(place.log));
  ROTA_TRY(copy(reader, options.to));
  output.ledger_copied({Action::kBackup, place.name, options.to, reader.last_index(), reader.first_index()});
  return {};
}

// The file of the ledger that a folder is to have. A write-ahead file of another ledger would be taken for a part of
// it.
Result<std::string> new_ledger_in(const std::string& folder) {
  std::error_code error;
  const std::string log = (fs::path(folder) / "ledger.db").string();
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    if (!fs::exists(fs::symlink_status(log + suffix, error))) continue;
    return Error{ErrorCode::kAlreadyExists,
                 "there is a ledger, or a part of one, in '" + printable(folder) + "' already (ledger.db" + suffix +
                     "), and nothing was changed; restore to another folder, or move that one away first"};
  }
  return log;
}

Result<void> make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return os_error(errno, "create '" + printable(folder) + "'");
  }
  return {};
}

Result<void> copy_between(const LedgerOptions& options, Output& output, Action action) {
  std::string from = options.from;
  std::string name = from;
  if (!is_etcd(from) && action == Action::kCopy) {
    std::string note;
    ROTA_TRY_ASSIGN(const Place place, find_place(from, &note));
    output.note(note);
    ROTA_TRY(open_ledger(place.log));  // Refuses a URL.
    from = place.log;
    name = place.name;
  }
  std::string to = options.to;
  if (!is_etcd(to)) {
    ROTA_TRY_ASSIGN(to, new_ledger_in(options.to));
    ROTA_TRY(make_folder(options.to));
  }
  ROTA_TRY_ASSIGN(const CopiedLedger copied, copy_ledger(from, to));
  output.ledger_copied({action, name, to, copied.last_index, copied.first_index});
  return {};
}

Result<void> restore(const LedgerOptions& options, Output& output) {
  std::error_code error;
  if (is_etcd(options.from)) return wrong_use("a backup is a file; to copy a log from etcd, use `rota ledger copy`");
  if (fs::is_directory(options.from, error)) {
    return wrong_use("'" + printable(options.from) + "' is a folder, not a backup");
  }
  if (is_etcd(options.to)) return copy_between(options, output, Action::kRestore);
  ROTA_TRY_ASSIGN(const std::string log, new_ledger_in(options.to));
  ROTA_TRY_ASSIGN(ledger::DiskReader reader, open_ledger(options.from));
  ROTA_TRY(make_folder(options.to));
  ROTA_TRY(copy(reader, log));
  output.ledger_copied({Action::kRestore, options.from, log, reader.last_index(), reader.first_index()});
  return {};
}

// A log in etcd is copied to a file first, which is removed afterwards.
Result<void> verify_etcd(const LedgerOptions& options, Output& output) {
  std::string folder = (fs::temp_directory_path() / "rota-verify-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return os_error(errno, "create a temporary folder");
  const std::string log = folder + "/ledger.db";
  Result<void> verified = [&]() -> Result<void> {
    ROTA_TRY(copy_ledger(options.from, log));
    ReplayOptions replay;
    replay.where = options.from;
    ROTA_TRY_ASSIGN(const Replay result, replay_log({folder, log, options.from}, replay, {}, output.shows_progress()));
    output.replay(result);
    return {};
  }();
  std::error_code error;
  fs::remove_all(folder, error);
  return verified;
}

Result<void> verify(const LedgerOptions& options, Output& output) {
  if (is_etcd(options.from)) return verify_etcd(options, output);
  // To open a pipe would wait until somebody writes to it.
  std::error_code error;
  const fs::file_status status = fs::status(options.from, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    return wrong_use("'" + printable(options.from) + "' is neither a file nor a folder");
  }
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.from, &note));
  output.note(note);
  ReplayOptions replay;
  replay.where = options.from;
  ROTA_TRY_ASSIGN(const Replay result, replay_log(place, replay, {}, output.shows_progress()));
  output.replay(result);
  return {};
}

Result<int> act(const LedgerOptions& options, Output& output) {
  if (options.action == "verify") {
    if (!options.to.empty()) return wrong_use("'" + printable(options.to) + "' is one argument too many");
    ROTA_TRY(verify(options, output));
    return 0;
  }
  if (options.action == "copy") {
    if (options.to.empty()) return wrong_use("copy needs a FROM and a TO");
    ROTA_TRY(copy_between(options, output, Action::kCopy));
    return 0;
  }
  if (options.action != "backup" && options.action != "restore") {
    return wrong_use("'" + printable(options.action) + "' is not something to do with a ledger");
  }
  if (options.to.empty()) {
    return wrong_use(options.action == "backup" ? "backup needs a WHERE and a FILE" : "restore needs a FILE and a DIR");
  }
  ROTA_TRY(options.action == "backup" ? back_up(options, output) : restore(options, output));
  return 0;
}

}  // namespace

Subcommand ledger_subcommand() {
  auto options = std::make_shared<LedgerOptions>();
  return {
      .name = "ledger",
      .meaning = "Back up, restore, copy or verify the log of a run or a host",
      .positionals = {required(positional("ACTION", &options->action, "backup, restore, copy or verify")),
                      positional("FROM", &options->from,
                                 "what is backed up, copied or verified: a workflow file, a state folder, a log, or "
                                 "etcd:URL,URL,URL; or the backup that is restored"),
                      positional("TO", &options->to,
                                 "the file of the backup; or the folder, or etcd:URL,URL,URL, to restore or copy to")},
      .json = "print one JSON object",
      .footer =
          "backup: copies one moment of the log, while a host or a run writes it; the copy is synced, checked and a "
          "single\nfile. restore: makes a state folder from a backup; an existing ledger is never replaced. verify: "
          "decides every\nrecord again and compares, as `rota replay` does. copy: moves a log between a state folder "
          "and etcd, both "
          "ways;\nno host may use the new place yet, and the old one should be stopped. ROTA_ETCD_PREFIX, "
          "ROTA_ETCD_CA,\n"
          "ROTA_ETCD_CERT and ROTA_ETCD_KEY apply to etcd:.",
      .examples =
          {"rota ledger backup /var/lib/rota /backup/rota-monday.db", "rota ledger verify /backup/rota-monday.db",
           "rota ledger restore /backup/rota-monday.db /var/lib/rota",
           "rota ledger copy /var/lib/rota etcd:http://10.0.0.1:2379,http://10.0.0.2:2379,http://10.0.0.3:2379"},
      .run = [options](Output& output) { return act(*options, output); }};
}

}  // namespace rota::cli
