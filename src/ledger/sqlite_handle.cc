#include "ledger/sqlite_handle.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "base/os_error.h"
#include "rota/assert.h"

namespace rota::ledger::detail {

namespace {

constexpr int kBusyMs = 1000;  // Only another program, such as the sqlite3 shell, can hold a lock.

ErrorCode code_of(int status, int system_error) {
  switch (status & 0xff) {
    case SQLITE_FULL:
      return ErrorCode::kNoSpace;
    case SQLITE_IOERR:
      return system_error == ENOSPC || system_error == EDQUOT ? ErrorCode::kNoSpace : ErrorCode::kIoError;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kCorrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kFailedPrecondition;
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return ErrorCode::kPermissionDenied;
    case SQLITE_CANTOPEN:
      return system_error == 0 ? ErrorCode::kIoError : code_of_errno(system_error);
    case SQLITE_NOMEM:
      return ErrorCode::kResourceExhausted;
    case SQLITE_TOOBIG:
      return ErrorCode::kTooLarge;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

// --------------------------------------------------------------------------------------------------------- Connection

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path, Mode mode, const char* vfs) {
  std::unique_ptr<Connection> connection(new Connection(path));
  int flags = mode == Mode::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  ROTA_TRY(connection->connect(path, flags, vfs));
  return connection;
}

Result<std::unique_ptr<Connection>> Connection::open_with(const std::string& path, std::string_view parameters,
                                                          const char* vfs) {
  std::unique_ptr<Connection> connection(new Connection(path));
  std::string uri = "file:";
  for (const char c : path) {
    // Characters with a meaning in a URI, as hexadecimal numbers.
    uri += c == '%' ? "%25" : c == '?' ? "%3f" : c == '#' ? "%23" : std::string(1, c);
  }
  uri.append("?").append(parameters);
  ROTA_TRY(connection->connect(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, vfs));
  return connection;
}

Result<void> Connection::connect(const std::string& name, int flags, const char* vfs) {
  // NOMUTEX: a Connection has one owner at a time.
  if (sqlite3_open_v2(name.c_str(), &raw_, flags | SQLITE_OPEN_NOMUTEX, vfs) != SQLITE_OK) return error("open");
  sqlite3_extended_result_codes(raw_, 1);
  sqlite3_busy_timeout(raw_, kBusyMs);
  return {};
}

Connection::~Connection() {
  const int status = sqlite3_close(raw_);
  ROTA_ASSERT(status == SQLITE_OK, "a connection was closed before its statements, status ", status);
}

Error Connection::error(std::string_view what) const {
  const int status = raw_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(raw_);
  const int system_error = raw_ == nullptr ? 0 : sqlite3_system_errno(raw_);
  std::string sentence = path_ + ": " + std::string(what) + ": " + sqlite3_errstr(status);
  const bool device = (status & 0xff) == SQLITE_IOERR || (status & 0xff) == SQLITE_CANTOPEN;
  if (device && system_error != 0) sentence += std::string(" (") + strerrordesc_np(system_error) + ")";
  if ((status & 0xff) == SQLITE_BUSY) sentence += "; another program has it open: end that first";
  if ((status & 0xff) == SQLITE_FULL) sentence += "; make room, then open the ledger again: nothing is lost";
  return Error{code_of(status, system_error), std::move(sentence)}.with("sqlite", std::to_string(status));
}

Result<Statement> Connection::prepare(std::string_view sql) {
  Statement statement;
  statement.connection_ = this;
  if (sqlite3_prepare_v3(raw_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement.raw_,
                         nullptr) != SQLITE_OK) {
    return error(sql);
  }
  return statement;
}

Result<void> Connection::execute(const char* sql) {
  if (sqlite3_exec(raw_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error(sql);
  return {};
}

Result<std::uint64_t> Connection::number(std::string_view sql) {
  ROTA_TRY_ASSIGN(Statement statement, prepare(sql));
  ROTA_TRY_ASSIGN(const bool row, statement.step());
  if (!row) return Error{ErrorCode::kCorrupt, path_ + ": no row was returned for " + std::string(sql)};
  return statement.number(0);
}

Result<void> Connection::mark_write_ahead() {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(raw_, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return error("its file");
  // The format versions for writing and reading (file format, 1.3.2): 2 is write-ahead logging.
  constexpr char kVersions[] = {2, 2};
  constexpr sqlite3_int64 kVersionsAt = 18;
  int status = file->pMethods->xWrite(file, kVersions, sizeof kVersions, kVersionsAt);
  if (status == SQLITE_OK) status = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  if (status == SQLITE_OK) return {};
  const int system_error = errno;
  return Error{code_of(status, system_error), path_ + ": creating it: " + sqlite3_errstr(status)}.with(
      "sqlite", std::to_string(status));
}

void Connection::roll_back() {
  // Some errors have already rolled back. If this fails as well, the connection cannot be used, which the error that
  // led here already says.
  if (sqlite3_get_autocommit(raw_) == 0) sqlite3_exec(raw_, "ROLLBACK", nullptr, nullptr, nullptr);
}

// ---------------------------------------------------------------------------------------------------------- Statement

Statement::~Statement() { sqlite3_finalize(raw_); }

Statement& Statement::bind(int parameter, std::uint64_t value) {
  bind_status_ |= sqlite3_bind_int64(raw_, parameter, static_cast<sqlite3_int64>(value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view bytes) {
  // A null pointer would bind NULL instead of an empty blob.
  bind_status_ |= sqlite3_bind_blob64(raw_, parameter, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
  return *this;
}

Result<bool> Statement::step() {
  if (bind_status_ == SQLITE_OK) [[likely]] {
    const int status = sqlite3_step(raw_);
    if (status == SQLITE_DONE) return false;
    if (status == SQLITE_ROW) return true;
  }
  Error failed = connection_->error(sqlite3_sql(raw_));
  reset();
  return failed;
}

Result<void> Statement::run() {
  ROTA_TRY_ASSIGN(const bool row, step());
  ROTA_ASSERT(!row, "a statement that gives no rows gave one: ", sqlite3_sql(raw_));
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(raw_);
  bind_status_ = SQLITE_OK;
}

std::uint64_t Statement::number(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(raw_, column));
}
std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(raw_, column);
  return {static_cast<const char*>(data),
          data == nullptr ? 0 : static_cast<std::size_t>(sqlite3_column_bytes(raw_, column))};
}

}  // namespace rota::ledger::detail
