// What tests of programs share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "fiber/io_testing.h"
#include "rota/fiber.h"
#include "worker/owned_fd.h"
#include "worker/process.h"

namespace rota::worker::testing {

// A directory that is removed at the end of the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rota-worker-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make a directory for the test";
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline ProcessSpec shell(const std::string& text) {
  ProcessSpec spec;
  spec.arguments = shell_arguments(text);
  spec.environment = {"PATH=/usr/local/bin:/usr/bin:/bin"};
  return spec;
}

// A started program, and its output.
struct Started {
  ProgramPipe out = ProgramPipe::make().value();
  ProgramPipe progress = ProgramPipe::make().value();
  Result<std::unique_ptr<Process>> process;

  Started(GuardPool& guards, const ProcessSpec& spec)
      : process(Process::start(guards, spec, {out.write_end.fd, out.write_end.fd, progress.write_end.fd})) {
    out.write_end.reset();
    progress.write_end.reset();
  }
  Process* operator->() { return process.value().get(); }
  // The next line of the output, without its line end.
  std::string line() {
    std::string text;
    for (;;) {
      const std::string byte = fiber::testing::read_text(out.read_end, 1);
      if (byte == "\n" || byte[0] == '\0') return text;
      text += byte;
    }
  }
  // As many bytes of the output, or what there is before its end.
  std::string text(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const auto count = out.read_end.read_some(std::as_writable_bytes(std::span(bytes).subspan(got)));
      if (!count.ok() || *count == 0) break;
      got += *count;
    }
    bytes.resize(got);
    return bytes;
  }
  std::string rest() { return fiber::testing::read_to_end(out.read_end); }
};

// Runs `body` as a task of a real runtime.
template <class F>
void in_runtime(F&& body, std::size_t workers = 2) {
  fiber::Runtime runtime({.worker_count = workers});
  runtime.run(std::forward<F>(body));
}

}  // namespace rota::worker::testing
