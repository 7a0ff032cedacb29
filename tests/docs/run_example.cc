#include "run_example.h"

#include <cstdio>
#include <exception>
#include <string>

namespace docs {

namespace {

constexpr std::string_view kAnything = "…";

bool line_matches(std::string_view printed, std::string_view expected) {
  const std::size_t gap = expected.find(kAnything);
  if (gap == std::string_view::npos) return printed == expected;
  if (!printed.starts_with(expected.substr(0, gap))) return false;
  const std::string_view rest = expected.substr(gap + kAnything.size());
  for (std::size_t at = gap; at <= printed.size(); ++at) {
    if (line_matches(printed.substr(at), rest)) return true;
  }
  return false;
}

}  // namespace

bool matches(std::string_view printed, std::string_view expected) {
  while (!printed.empty() && !expected.empty()) {
    const std::size_t printed_end = printed.find('\n');
    const std::size_t expected_end = expected.find('\n');
    if (!line_matches(printed.substr(0, printed_end), expected.substr(0, expected_end))) return false;
    if (printed_end == std::string_view::npos || expected_end == std::string_view::npos) {
      return printed_end == expected_end;
    }
    printed.remove_prefix(printed_end + 1);
    expected.remove_prefix(expected_end + 1);
  }
  return printed.empty() && expected.empty();
}

void expect_output(int (*example)(), std::string_view expected) {
  testing::internal::CaptureStdout();
  int status = -1;
  std::string thrown;
  try {
    status = example();
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  std::fflush(stdout);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(thrown, "") << "an exception left the example";
  if (thrown.empty()) {
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(matches(printed, expected)) << "it printed:\n" << printed << "the page says:\n" << expected;
}

}  // namespace docs
