// A user's program: what they include, link and run. Built against the installed package, through pkg-config, and with
// Rota as a subdirectory.
#include <cstdio>
#include <string>

#include "rota/result.h"
#include "rota/version.h"

namespace {

rota::Result<int> half(int n) {
  if (n % 2 != 0) return rota::Error{rota::ErrorCode::kInvalidArgument, std::to_string(n) + " is odd"};
  return n / 2;
}

}  // namespace

int main() {
  int unused;  // A warning in a user's own code is the user's business: Rota's -Werror must not reach it.
  if (rota::library_version() != rota::kHeaderVersion) return 1;
  if (!half(42).ok() || half(42).value() != 21) return 2;
  if (half(7).ok() || half(7).error().code != rota::ErrorCode::kInvalidArgument) return 3;
  std::printf("rota %s works\n", std::string(rota::library_version_text()).c_str());
  return 0;
}
