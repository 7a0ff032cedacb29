// Errors of the operating system carry a code that a program can act on and a sentence with the operation.
#include "base/os_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace rota {
namespace {

TEST(OsError, MapsErrnoToACode) {
  EXPECT_EQ(code_of_errno(ECONNREFUSED), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of_errno(EPIPE), ErrorCode::kClosed);
  EXPECT_EQ(code_of_errno(EACCES), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code_of_errno(ENOENT), ErrorCode::kNotFound);
  EXPECT_EQ(code_of_errno(ENOSPC), ErrorCode::kNoSpace);
  EXPECT_EQ(code_of_errno(EIO), ErrorCode::kIoError);
  EXPECT_EQ(code_of_errno(123456), ErrorCode::kIoError);
}

TEST(OsError, NamesTheOperationTheReasonAndTheErrno) {
  const Error error = os_error(ENOENT, "open /x");
  EXPECT_EQ(error.message, "open /x: No such file or directory");
  EXPECT_EQ(*error.detail("errno"), "ENOENT");
  EXPECT_EQ(os_error(123456, "open /x").message, "open /x: unknown error 123456");
  EXPECT_EQ(*os_error(123456, "open /x").detail("errno"), "123456");
}

}  // namespace
}  // namespace rota
