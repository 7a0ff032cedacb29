// ProgressLine: shows "verifying 42 %" on standard error, in one line that is overwritten; shows nothing if standard
// error is not a terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace rota::cli {

class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : on_(wanted && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text) {
    if (!on_ || text == shown_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
    shown_ = text;
  }
  void clear() {
    if (!shown_.empty()) std::fputs("\r\033[K", stderr);
    shown_.clear();
  }

 private:
  bool on_;
  std::string shown_;
};

}  // namespace rota::cli
