// The error table: frozen numbers, sane statuses, and a documentation page that says the same.
#include "rota/error_code.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/source_dir.h"

namespace rota {
namespace {

// Contract: F-16 (fibers' own codes).
// A number here is never changed or reused: programs, logs and the C interface store it. Add new lines only.
const std::map<std::string, int> kFrozen = {
    {"Ok", 0},
    {"Internal", 1},
    {"InvalidArgument", 2},
    {"NotFound", 3},
    {"AlreadyExists", 4},
    {"Conflict", 5},
    {"FailedPrecondition", 6},
    {"Capacity", 7},
    {"QueueFull", 8},
    {"Timeout", 9},
    {"DeadlineExceeded", 10},
    {"Cancelled", 11},
    {"Closed", 12},
    {"WouldBlock", 13},
    {"Unavailable", 14},
    {"NotLeader", 15},
    {"Unauthenticated", 16},
    {"PermissionDenied", 17},
    {"ResourceExhausted", 18},
    {"DataLoss", 19},
    {"Corrupt", 20},
    {"IoError", 21},
    {"NoSpace", 22},
    {"ParseError", 23},
    {"Unsupported", 24},
    {"TooLarge", 25},
    {"Overloaded", 26},
    {"SpawnBudgetExhausted", 100},
    {"MemoryBudgetExhausted", 101},
    {"BudgetExhausted", 102},
    {"NurseryNotActive", 103},
    {"StackOverflow", 104},
    {"WorkerPanic", 105},
    {"CapabilityDenied", 106},
    {"OutsideRuntime", 107},
    {"Deadlock", 108},
};

TEST(ErrorCodeTest, NumbersAreFrozen) {
  std::map<std::string, int> actual;
  for (const ErrorCodeInfo& info : error_codes()) actual[std::string(info.name)] = static_cast<int>(info.code);
  EXPECT_EQ(actual, kFrozen);
}

TEST(ErrorCodeTest, EveryRowIsFoundByCodeAndByName) {
  for (const ErrorCodeInfo& info : error_codes()) {
    EXPECT_EQ(&error_code_info(info.code), &info);
    EXPECT_EQ(find_error_code(info.name), &info);
    EXPECT_EQ(to_string(info.code), info.name);
    EXPECT_EQ(http_status(info.code), info.http_status);
    EXPECT_EQ(exit_status(info.code), info.exit_status);
  }
  EXPECT_EQ(find_error_code("notfound"), nullptr);
  EXPECT_EQ(to_string(static_cast<ErrorCode>(60000)), "Internal");
}

TEST(ErrorCodeTest, StatusesAreOnesACallerCanActOn) {
  for (const ErrorCodeInfo& info : error_codes()) {
    SCOPED_TRACE(info.name);
    EXPECT_FALSE(info.meaning.empty());
    if (info.code == ErrorCode::kOk) {
      EXPECT_EQ(info.http_status, 200);
      EXPECT_EQ(info.exit_status, 0);
      continue;
    }
    EXPECT_GE(info.http_status, 400);
    EXPECT_LE(info.http_status, 599);
    EXPECT_GE(info.exit_status, 1);
    EXPECT_LE(info.exit_status, 63);  // Above are statuses that shells and sysexits use themselves.
  }
}

std::string documentation() {
  std::ostringstream out;
  out << "# Error codes\n\n"
         "Every error of Rota has one of these codes. The C++ interface has them as `rota::ErrorCode::kName`, the C\n"
         "interface as numbers, HTTP answers as `\"code\": \"Name\"`, and the `rota` command ends with the exit "
         "status. "
         "Numbers and\n"
         "names are stable; codes may be added.\n\n"
         "This page is made from the table in `include/rota/error_code.h`; a test compares them. To write it anew:\n"
         "`ROTA_REWRITE=1 base_tests --gtest_filter='ErrorCodeTest.*'`.\n\n"
         "| code | number | HTTP | exit | meaning |\n|---|---|---|---|---|\n";
  for (const ErrorCodeInfo& info : error_codes()) {
    out << "| " << info.name << " | " << static_cast<int>(info.code) << " | " << info.http_status << " | "
        << info.exit_status << " | " << info.meaning << " |\n";
  }
  out << "\nExit statuses: 0 success, 1 failure of Rota's own, 2 the request was wrong, 3 not found, 4 conflicts with "
         "what\n"
         "is there, 5 a limit was reached, 6 took too long, 7 cancelled, 8 not possible now and worth trying again,\n"
         "9 not allowed, 10 data or device damaged.\n";
  return out.str();
}

TEST(ErrorCodeTest, TheDocumentationSaysTheSame) {
  const std::string path = std::string(kSourceDir) + "/docs/errors.md";
  if (std::getenv("ROTA_REWRITE") != nullptr) std::ofstream(path) << documentation();
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, documentation()) << "write it anew with ROTA_REWRITE=1";
}

}  // namespace
}  // namespace rota
