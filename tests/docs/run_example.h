// Runs an example of a page and compares what it prints with what the page says.
#pragma once

#include <gtest/gtest.h>

// What the examples may use without saying so.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace docs {

// Expects that example() returns 0 and prints `expected`, in which "…" stands for anything within its line.
void expect_output(int (*example)(), std::string_view expected);

// The comparison.
bool matches(std::string_view printed, std::string_view expected);

}  // namespace docs
