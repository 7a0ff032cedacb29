#include "cli/ledger_copy.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/etcd_access.h"
#include "fleet/stored_record.h"
#include "host/recovery.h"
#include "ledger/disk_ledger.h"
#include "ledger/disk_reader.h"
#include "ledger/etcd_ledger.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"

namespace rota::cli {

namespace {

namespace fs = std::filesystem;
using ledger::RecordBytes;
using ledger::Snapshot;

constexpr std::string_view kEtcd = "etcd:";
constexpr std::size_t kPage = 1000;
constexpr std::chrono::seconds kReachWithin{15};

struct Source {
  std::uint64_t first = 1;
  std::uint64_t last = 0;
  std::function<Result<std::vector<RecordBytes>>(std::uint64_t from)> read{};
  std::optional<Snapshot> snapshot{};
  std::uint64_t term = 0;  // Of its last record.
};

Result<EtcdAccess> access_of(std::string_view where) {
  std::string urls(where.substr(kEtcd.size()));
  if (urls.empty()) {
    const char* value = std::getenv("ROTA_ETCD");  // NOLINT(concurrency-mt-unsafe): nothing changes the environment.
    if (value != nullptr) urls = value;
  }
  if (urls.empty()) {
    return Error{ErrorCode::kInvalidArgument, "'etcd:' needs URLs, as in etcd:http://10.0.0.1:2379, or ROTA_ETCD"};
  }
  EtcdAccess access = EtcdAccess::from_environment(std::move(urls));
  ROTA_TRY(access.check());
  return access;
}

// The term of the last record, wherever that is.
Result<void> find_term(Source& source) {
  if (source.last >= source.first) {
    ROTA_TRY_ASSIGN(const std::vector<RecordBytes> page, source.read(source.last));
    if (page.empty()) return Error{ErrorCode::kCorrupt, "record " + std::to_string(source.last) + " is missing"};
    ROTA_TRY_ASSIGN(const fleet::Record record, fleet::decode_stored_record(page.front().bytes));
    source.term = record.term.value();
  } else if (source.snapshot) {
    ROTA_TRY_ASSIGN(const host::Recovered recovered, host::decode_snapshot(*source.snapshot));
    source.term = recovered.position.term.value();
  }
  return {};
}

// The records that were compacted are written as empty ones and compacted again: so every backend numbers the others as
// the source does, without a special way to begin in the middle.
Result<void> copy_records(const Source& source, ledger::Ledger& to) {
  if (source.first > 1 && (!source.snapshot || source.snapshot->index + 1 < source.first)) {
    return Error{ErrorCode::kCorrupt, "the first records are missing, and no snapshot replaces them"};
  }
  for (std::uint64_t at = 1; at < source.first;) {
    std::vector<RecordBytes> page;
    for (; at < source.first && page.size() < kPage; ++at) page.push_back({at, {}});
    ROTA_TRY(to.append(page));
  }
  for (std::uint64_t at = source.first; at <= source.last;) {
    ROTA_TRY_ASSIGN(const std::vector<RecordBytes> page, source.read(at));
    if (page.empty()) return Error{ErrorCode::kCorrupt, "record " + std::to_string(at) + " is missing"};
    const std::size_t wanted = std::min<std::uint64_t>(page.size(), source.last - at + 1);
    ROTA_TRY(to.append(std::span(page).first(wanted)));
    at += wanted;
  }
  if (source.snapshot) ROTA_TRY(to.save_snapshot(*source.snapshot));
  if (source.first > 1) ROTA_TRY(to.compact(source.first - 1));
  return {};
}

// Writes to a file beside `path` and renames it: there is a whole copy at `path`, or none.
Result<void> copy_to_disk(const Source& source, const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error))) {
    return Error{ErrorCode::kAlreadyExists, "'" + printable(path) + "' exists, and was not changed"};
  }
  const std::string partial = path + ".partial";
  const auto remove = [&] {
    for (const char* suffix : {"", "-wal", "-shm", "-lock"}) fs::remove(partial + suffix, error);
  };
  remove();
  Result<void> copied = [&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const std::unique_ptr<ledger::DiskLedger> to, ledger::DiskLedger::open({.path = partial}));
    ROTA_TRY(copy_records(source, *to));
    return to->close();
  }();
  if (copied.ok()) {
    fs::rename(partial, path, error);
    if (error) copied = Error{ErrorCode::kIoError, "'" + printable(path) + "' could not be made: " + error.message()};
  }
  remove();
  return copied;
}

// The connections of a copy, which outlive the tasks of the ledgers.
struct Connections {
  std::unique_ptr<EtcdConnection> from{};
  std::unique_ptr<EtcdConnection> to{};
};

Result<void> copy_to_etcd(const Source& source, const EtcdAccess& access, Connections& connections,
                          fiber::Nursery& nursery) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  ledger::EtcdLedgerOptions options{.prefix = access.prefix, .name = "(`rota ledger copy`)"};
  options.terms_above = std::max(source.term, static_cast<std::uint64_t>(now.count()));
  ROTA_TRY_ASSIGN(const std::unique_ptr<ledger::EtcdLedger> to,
                  ledger::EtcdLedger::open(connections.to->store(), options, nursery, kReachWithin));
  const Error exists{ErrorCode::kAlreadyExists, "there is a log under '" + access.prefix +
                                                    "' in etcd already, and nothing was changed; choose another prefix "
                                                    "with ROTA_ETCD_PREFIX, or remove the old log's keys first"};
  if (to->last_index() != 0) return exists;
  Result<std::uint64_t> term = to->campaign(kReachWithin);
  if (!term.ok()) return std::move(term).take_error().in("a host uses this log");
  if (to->last_index() != 0) return exists;
  ledger::kv::Store& store = connections.to->store();
  Result<void> copied = ledger::EtcdLedger::mark_copy(store, access.prefix, false, kReachWithin);
  if (copied.ok()) copied = copy_records(source, *to);
  if (copied.ok()) copied = ledger::EtcdLedger::mark_copy(store, access.prefix, true, kReachWithin);
  if (copied.ok()) copied = to->close();
  if (copied.ok()) return {};
  return std::move(copied).take_error().in("the copy in etcd is incomplete; remove it with `etcdctl del --prefix " +
                                           access.prefix + "` before a host uses it");
}

Result<CopiedLedger> copy_in_task(const std::string& from, const std::string& to, Connections& connections,
                                  fiber::Nursery& nursery) {
  Source source;
  std::optional<ledger::DiskReader> disk;
  std::unique_ptr<ledger::EtcdLedger> etcd;
  if (is_etcd(from)) {
    ROTA_TRY_ASSIGN(const EtcdAccess access, access_of(from));
    ROTA_TRY_ASSIGN(
        etcd, ledger::EtcdLedger::open(connections.from->store(), {.prefix = access.prefix}, nursery, kReachWithin));
    source.last = etcd->last_index();
    source.first = etcd->first_index();
    source.read = [&](std::uint64_t at) { return etcd->read(at, kPage); };
    ROTA_TRY_ASSIGN(source.snapshot, etcd->latest_snapshot());
    if (source.last == 0) {
      return Error{ErrorCode::kNotFound, "there is no log under '" + access.prefix + "' in etcd"};
    }
  } else {
    ROTA_TRY_ASSIGN(disk, ledger::DiskReader::open(from));
    source.last = disk->last_index();
    source.first = disk->first_index();
    source.read = [&](std::uint64_t at) { return disk->read(at, kPage); };
    ROTA_TRY_ASSIGN(source.snapshot, disk->latest_snapshot());
  }
  // A snapshot that is newer than what is copied belongs to a later moment.
  if (source.snapshot) source.last = std::max(source.last, source.snapshot->index);
  ROTA_TRY(find_term(source));
  if (is_etcd(to)) {
    ROTA_TRY_ASSIGN(const EtcdAccess access, access_of(to));
    ROTA_TRY(copy_to_etcd(source, access, connections, nursery));
  } else {
    ROTA_TRY(copy_to_disk(source, to));
  }
  return CopiedLedger{source.first, source.last};
}

Result<void> open_connection(const std::string& where, std::unique_ptr<EtcdConnection>& connection,
                             fiber::Nursery& nursery) {
  if (!is_etcd(where)) return {};
  ROTA_TRY_ASSIGN(const EtcdAccess access, access_of(where));
  ROTA_TRY_ASSIGN(connection, EtcdConnection::open(access, nursery));
  return {};
}

// Runs the body in a nursery, and ends the tasks that are left.
template <class Body>
void in_nursery(Body&& body) {
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      body(nursery);
      nursery.cancel();
    });
  } catch (const fiber::Cancelled&) {  // As it was told to.
  }
}

}  // namespace

bool is_etcd(std::string_view where) { return where.starts_with(kEtcd); }

Result<CopiedLedger> copy_ledger(const std::string& from, const std::string& to) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  return runtime->run([&]() -> Result<CopiedLedger> {
    Result<CopiedLedger> copied = ErrorCode::kCancelled;
    Connections connections;
    in_nursery([&](fiber::Nursery& nursery) {
      copied = [&]() -> Result<CopiedLedger> {
        ROTA_TRY(open_connection(from, connections.from, nursery));
        ROTA_TRY(open_connection(to, connections.to, nursery));
        Result<CopiedLedger> result = ErrorCode::kCancelled;
        in_nursery([&](fiber::Nursery& ledgers) { result = copy_in_task(from, to, connections, ledgers); });
        return result;
      }();
      for (const auto* each : {&connections.from, &connections.to}) {
        if (*each != nullptr) (*each)->close();
      }
    });
    return copied;
  });
}

}  // namespace rota::cli
