// SQLite's part of the table (P-11): the bare library in WAL mode with synchronous=FULL (NORMAL where ours is relaxed),
// a table of index and bytes, one prepared statement, one thread. No checksum of its own, nobody else who waits.
#include <sqlite3.h>

#include <cstdint>
#include <string>

#include "common/disk.h"

namespace {

using bench::Figures;

class Database {
 public:
  Database(const std::string& path, const char* synchronous) {
    check(sqlite3_open(path.c_str(), &raw_));
    execute("PRAGMA journal_mode = WAL");
    execute((std::string("PRAGMA synchronous = ") + synchronous).c_str());
    execute("CREATE TABLE IF NOT EXISTS records(idx INTEGER PRIMARY KEY, bytes BLOB NOT NULL)");
    begin_ = prepare("BEGIN IMMEDIATE");
    commit_ = prepare("COMMIT");
    insert_ = prepare("INSERT INTO records(idx, bytes) VALUES(?1, ?2)");
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() {
    for (sqlite3_stmt* statement : {begin_, commit_, insert_}) sqlite3_finalize(statement);
    sqlite3_close(raw_);
  }

  void append(std::uint64_t count, std::uint64_t group) {
    for (std::uint64_t done = 0; done < count;) {
      run(begin_);
      for (std::uint64_t i = 0; i < group && done < count; ++i, ++done) {
        const std::string bytes = bench::record_bytes(++last_);
        check(sqlite3_bind_int64(insert_, 1, static_cast<sqlite3_int64>(last_)));
        check(sqlite3_bind_blob64(insert_, 2, bytes.data(), bytes.size(), SQLITE_STATIC));
        run(insert_);
      }
      run(commit_);
    }
  }
  // Of all records, in order, each copied out.
  std::uint64_t read_all() {
    sqlite3_stmt* row = prepare("SELECT idx, bytes FROM records ORDER BY idx");
    std::uint64_t sum = 0;
    while (sqlite3_step(row) == SQLITE_ROW) {
      const std::string bytes(static_cast<const char*>(sqlite3_column_blob(row, 1)),
                              static_cast<std::size_t>(sqlite3_column_bytes(row, 1)));
      sum += static_cast<std::uint64_t>(sqlite3_column_int64(row, 0)) + bytes.size();
    }
    check(sqlite3_finalize(row));
    return sum;
  }
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  void check(int status) {
    if (status != SQLITE_OK && status != SQLITE_DONE) bench::fail(sqlite3_errmsg(raw_));
  }
  void execute(const char* sql) { check(sqlite3_exec(raw_, sql, nullptr, nullptr, nullptr)); }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(raw_, sql, -1, &statement, nullptr));
    return statement;
  }
  void run(sqlite3_stmt* statement) {
    check(sqlite3_step(statement));
    check(sqlite3_reset(statement));
  }

  sqlite3* raw_ = nullptr;
  sqlite3_stmt *begin_ = nullptr, *commit_ = nullptr, *insert_ = nullptr;
  std::uint64_t last_ = 0;
};

Figures run_groups(std::uint64_t count, std::uint64_t group, const char* synchronous) {
  const bench::Scratch scratch;
  Database database(scratch.file("database"), synchronous);
  std::uint64_t runs = 0;
  const double ns = bench::measure_ns_each(count, [&] {
    database.append(count, group);
    ++runs;
  });
  bench::expect(database.last() / runs, count);
  return {ns / 1000};
}

Figures run_1(unsigned, std::uint64_t count) { return run_groups(count, 1, "FULL"); }
Figures run_128(unsigned, std::uint64_t count) { return run_groups(count, bench::kGroup, "FULL"); }
Figures run_relaxed(unsigned, std::uint64_t count) { return run_groups(count, 1, "NORMAL"); }

Figures run_recover(unsigned, std::uint64_t count) {
  const bench::Scratch scratch;
  const std::string path = scratch.file("database");
  Database(path, "NORMAL").append(count, 10'000);
  std::uint64_t sum = 0;
  const double seconds = bench::measure([&] {
    const std::uint64_t start = bench::now_ns();
    sum = Database(path, "NORMAL").read_all();
    return static_cast<double>(bench::now_ns() - start) / 1e9;
  });
  bench::expect(sum, bench::sum_of_records(count));
  return {seconds};
}

constexpr bench::Work kWorks[] = {
    {"ledger_1", 2'000, run_1},
    {"ledger_128", 51'200, run_128},
    {"ledger_relaxed", 20'000, run_relaxed},
    {"ledger_recover", 1'000'000, run_recover},
};

}  // namespace

int main(int argc, char** argv) { return bench::main_of(argc, argv, kWorks); }
