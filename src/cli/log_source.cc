#include "cli/log_source.h"

#include <poll.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/remote_host.h"
#include "host/recovery.h"
#include "ledger/disk_reader.h"

namespace rota::cli {

namespace {

constexpr std::string_view kSqliteMagic = "SQLite format 3";
constexpr std::size_t kReadRecords = 10'000;
constexpr int kLookEveryMs = 100;

class FileSource final : public LogSource {
 public:
  FileSource(std::string path, std::string bytes) : path_(std::move(path)), bytes_(std::move(bytes)), reader_(bytes_) {}

  Result<const fleet::Record*> next() override {
    Result<const fleet::Record*> record = reader_.next();
    if (!record.ok()) return std::move(record).take_error().in(path_);
    return record;
  }
  Result<fleet::Brain> begin() override {
    reader_ = fleet::LogReader(bytes_);
    return fleet::Brain();
  }
  [[nodiscard]] int permille() const override {
    return bytes_.empty() ? 1000 : static_cast<int>(reader_.byte() * 1000 / bytes_.size());
  }

 private:
  std::string path_;
  std::string bytes_;
  fleet::LogReader reader_;
};

class LedgerSource final : public LogSource {
 public:
  LedgerSource(std::string path, ledger::DiskReader reader) : path_(std::move(path)), reader_(std::move(reader)) {}

  Result<fleet::Brain> begin() override {
    records_.clear();
    at_ = 0;
    position_ = {};
    if (compacted() == 0) return fleet::Brain();
    Result<std::optional<ledger::Snapshot>> snapshot = reader_.latest_snapshot();
    if (!snapshot.ok()) return std::move(snapshot).take_error();
    if (!*snapshot) {
      return Error{ErrorCode::kCorrupt,
                   path_ + ": the first records are missing, and there is no snapshot that replaces them"};
    }
    Result<host::Recovered> recovered = host::decode_snapshot(**snapshot);
    if (!recovered.ok()) return std::move(recovered).take_error().in(path_);
    position_ = recovered->position;
    return std::move(recovered->brain);
  }
  [[nodiscard]] std::uint64_t compacted() const override { return reader_.first_index() - 1; }
  Result<const fleet::Record*> next() override {
    if (at_ == records_.size()) {
      records_.clear();
      at_ = 0;
      if (position_.index == reader_.last_index()) return static_cast<const fleet::Record*>(nullptr);
      Result<std::vector<ledger::RecordBytes>> more = reader_.read(position_.index + 1, kReadRecords);
      if (!more.ok()) return std::move(more).take_error();
      if (more->empty()) {
        return Error{ErrorCode::kCorrupt, path_ + ": record " + std::to_string(position_.index + 1) +
                                              " is missing of " + std::to_string(reader_.last_index())};
      }
      records_ = std::move(*more);
    }
    Result<fleet::Record> record = fleet::decode_record(records_[at_].bytes, position_);
    if (!record.ok()) return std::move(record).take_error().in(path_);
    ++at_;
    record_ = std::move(*record);
    return static_cast<const fleet::Record*>(&record_);
  }
  Result<void> refresh() override { return reader_.refresh(); }
  [[nodiscard]] int permille() const override {
    const std::uint64_t last = reader_.last_index();
    return last == 0 ? 1000 : static_cast<int>(position_.index * 1000 / last);
  }

 private:
  std::string path_;
  ledger::DiskReader reader_;
  std::vector<ledger::RecordBytes> records_;
  std::size_t at_ = 0;
  fleet::LogPosition position_;
  fleet::Record record_;
};

Error system_error(const std::string& path, const std::error_code& error) {
  ErrorCode code = ErrorCode::kIoError;
  if (error == std::errc::no_such_file_or_directory) code = ErrorCode::kNotFound;
  if (error == std::errc::permission_denied) code = ErrorCode::kPermissionDenied;
  return Error{code, "'" + path + "': " + error.message()};
}

Result<std::unique_ptr<LogSource>> open_ledger(const std::string& path) {
  ROTA_TRY_ASSIGN(ledger::DiskReader reader, ledger::DiskReader::open(path));
  return std::unique_ptr<LogSource>(std::make_unique<LedgerSource>(path, std::move(reader)));
}

}  // namespace

Result<std::unique_ptr<LogSource>> LogSource::open(const std::string& path) {
  if (is_url(path)) return open_remote_log(path);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return system_error(path, error ? error : std::make_error_code(std::errc::no_such_file_or_directory));
  }
  // A ledger that was just created is an empty file, without the magic number of SQLite.
  if (std::filesystem::path(path).filename() == "ledger.db") return open_ledger(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error(path, std::error_code(errno, std::generic_category()));
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::string bytes;
  if (!error) {
    bytes.resize(size);
    file.read(bytes.data(), static_cast<std::streamsize>(size));
    bytes.resize(static_cast<std::size_t>(file.gcount()));
  } else {  // A pipe.
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (file.bad()) return Error{ErrorCode::kIoError, "'" + path + "' could not be read to its end"};
  if (bytes.starts_with(kSqliteMagic)) {
    file.close();
    return open_ledger(path);
  }
  return std::unique_ptr<LogSource>(std::make_unique<FileSource>(path, std::move(bytes)));
}

Result<void> LogSource::wait() {
  ::poll(nullptr, 0, kLookEveryMs);
  return refresh();
}

Result<std::optional<std::string>> writer_of(const std::string& log) {
  if (is_url(log)) return std::optional<std::string>("the host at " + log);
  return ledger::DiskReader::writer_of(log);
}

Result<fleet::Brain> LogSource::read_all() {
  ROTA_TRY_ASSIGN(fleet::Brain brain, begin());
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, next());
    if (record == nullptr) return brain;
    ROTA_TRY(brain.apply(*record));
  }
}

Result<const fleet::Record*> LogSource::find(std::uint64_t index) {
  ROTA_TRY_ASSIGN(const fleet::Brain start, begin());
  (void)start;
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, next());
    if (record == nullptr || record->index == index) return record;
  }
}

}  // namespace rota::cli
