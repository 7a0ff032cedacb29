// SQLite's C interface as values of ours: a connection, a statement, an error.
//
// Thread safety: an object belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rota/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rota::ledger::detail {

class Connection;

// A prepared statement. Parameters and columns count from 1 and 0, as SQLite's do.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept
      : raw_(std::exchange(other.raw_, nullptr)), connection_(std::exchange(other.connection_, nullptr)) {}
  Statement& operator=(Statement&& other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(connection_, other.connection_);
    return *this;
  }
  ~Statement();

  // A failed bind makes the next step() fail.
  Statement& bind(int parameter, std::uint64_t value);
  // REQUIRES: the bytes stay until the statement is reset or gone.
  Statement& bind(int parameter, std::string_view bytes);
  // True: there is a row.
  Result<bool> step();
  // Runs a statement that gives no rows, and makes it ready for the next time.
  Result<void> run();
  void reset();

  [[nodiscard]] bool is_integer(int column) const;
  [[nodiscard]] bool is_blob(int column) const;
  [[nodiscard]] std::uint64_t number(int column) const;
  // Until the next step() or reset().
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  friend class Connection;
  sqlite3_stmt* raw_ = nullptr;
  Connection* connection_ = nullptr;
  int bind_status_ = 0;
};

// One connection. It is never moved: statements refer to it.
class Connection {
 public:
  enum class Mode { kRead, kWrite, kCreate };

  // `vfs` null is SQLite's own. It waits a second for a lock that another program has.
  static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode, const char* vfs);
  // Reads only, with parameters of SQLite's URIs: "mode=ro&immutable=1".
  static Result<std::unique_ptr<Connection>> open_with(const std::string& path, std::string_view parameters,
                                                       const char* vfs);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  Result<Statement> prepare(std::string_view sql);
  Result<void> execute(const char* sql);
  // The one number that a statement gives.
  Result<std::uint64_t> number(std::string_view sql);
  // Runs body between BEGIN and COMMIT. If anything fails, it is rolled back. On a connection that only reads, it reads
  // everything as of one moment.
  template <class Body>
  Result<void> transaction(Body&& body) {
    ROTA_TRY(execute("BEGIN IMMEDIATE"));
    Result<void> done = body();
    if (done.ok()) done = execute("COMMIT");
    if (!done.ok()) roll_back();
    return done;
  }

  // Makes a database that was just made one with a write-ahead log, and syncs it. REQUIRES: nobody else has it open,
  // and this connection is not used any more.
  Result<void> mark_write_ahead();

  // The error for what SQLite returned last here. `what` says what was tried.
  [[nodiscard]] Error error(std::string_view what) const;
  [[nodiscard]] sqlite3* raw() const { return raw_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit Connection(std::string path) : path_(std::move(path)) {}
  Result<void> connect(const std::string& name, int flags, const char* vfs);
  void roll_back();

  const std::string path_;
  sqlite3* raw_ = nullptr;
};

}  // namespace rota::ledger::detail
