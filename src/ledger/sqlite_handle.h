// C++ wrappers of SQLite's C interface: a connection, a statement, an error.
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

// A prepared statement. Parameters count from 1 and columns from 0, as in SQLite.
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
  // REQUIRES: the bytes stay valid until the statement is reset or destroyed.
  Statement& bind(int parameter, std::string_view bytes);
  // True: there is a row.
  Result<bool> step();
  // Runs a statement that returns no rows, and resets it.
  Result<void> run();
  void reset();

  [[nodiscard]] std::uint64_t number(int column) const;
  // Valid until the next step() or reset().
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  friend class Connection;
  sqlite3_stmt* raw_ = nullptr;
  Connection* connection_ = nullptr;
  int bind_status_ = 0;
};

// A connection. It is never moved, because statements refer to it.
class Connection {
 public:
  enum class Mode { kRead, kWrite, kCreate };

  // A null `vfs` means SQLite's own. Waits up to a second for a lock that another program holds.
  static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode, const char* vfs);
  // Opens for reading only, with SQLite URI parameters such as "mode=ro&immutable=1".
  static Result<std::unique_ptr<Connection>> open_with(const std::string& path, std::string_view parameters,
                                                       const char* vfs);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  Result<Statement> prepare(std::string_view sql);
  Result<void> execute(const char* sql);
  // The single number that a statement returns.
  Result<std::uint64_t> number(std::string_view sql);
  // Runs body between BEGIN and COMMIT, and rolls back on any failure. On a read-only connection, body sees the state
  // of one moment.
  template <class Body>
  Result<void> transaction(Body&& body) {
    ROTA_TRY(execute("BEGIN IMMEDIATE"));
    Result<void> done = body();
    if (done.ok()) done = execute("COMMIT");
    if (!done.ok()) roll_back();
    return done;
  }

  // Turns a new database into one with a write-ahead log, and syncs it. REQUIRES: nobody else has it open, and this
  // connection is not used afterwards.
  Result<void> mark_write_ahead();

  // The error for SQLite's latest result on this connection. `what` says what was attempted.
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
