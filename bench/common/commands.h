// What the programs of the rows about whole commands share (P-12, P-16): `rota run` and its peers start so many times
// `true`, from the start of the tool to its end.
//
// A tool is a function that writes its file for `count` tasks of one command into a fresh folder, and the arguments
// that it is then called with. That the tasks are really run is seen with a command that leaves a trace, not measured.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/bench.h"
#include "common/disk.h"

namespace bench {

using Arguments = std::vector<std::string>;
// Writes what the tool reads into `folder`; the command is `command`, without arguments.
using Tool =
    std::function<Arguments(const Scratch& folder, unsigned threads, std::uint64_t count, const std::string& command)>;

inline std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text).flush()) fail("cannot write " + path);
}

// Runs it to its end, with nothing to read and its output in the folder's file `out`: nanoseconds. It must succeed.
inline double run_tool(const Scratch& folder, const Arguments& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string out = folder.file("out");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  int status = 0;
  const std::uint64_t start = now_ns();
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  if (error != 0) fail("cannot start " + arguments.front() + ": " + std::strerror(error));
  if (waitpid(pid, &status, 0) != pid) fail("waitpid failed");
  const std::uint64_t end = now_ns();
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) {
    const std::string text = file_text(out);
    fail(arguments.front() + " failed: " + text.substr(text.size() - std::min<std::size_t>(text.size(), 300)));
  }
  return static_cast<double>(end - start);
}

inline double run_tool_once(const Tool& tool, unsigned threads, std::uint64_t count) {
  const Scratch folder;  // A fresh one: nothing is up to date, and no run goes on.
  return run_tool(folder, tool(folder, threads, count, "true"));
}

// Does it run each task? With a command that adds a byte to a file; a few are enough.
inline void check_tool(const Tool& tool, unsigned threads, std::uint64_t count) {
  const Scratch folder;
  const std::string tick = folder.file("tick");
  write_file(tick, "#!/bin/sh\nprintf x >> '" + folder.file("ticks") + "'\n");
  std::filesystem::permissions(tick, std::filesystem::perms::owner_all);
  count = std::min<std::uint64_t>(count, 200);
  run_tool(folder, tool(folder, threads, count, tick));
  expect(file_text(folder.file("ticks")).size(), count);
}

// run_true: microseconds a task.
inline Figures run_true(const Tool& tool, unsigned threads, std::uint64_t count) {
  check_tool(tool, threads, count);
  return {measure([&] { return run_tool_once(tool, threads, count) / 1000 / static_cast<double>(count); })};
}

// run_one: milliseconds of the whole command for one task; the median of `runs`.
inline Figures run_one(const Tool& tool, unsigned threads, std::uint64_t runs) {
  check_tool(tool, threads, 1);
  std::vector<double> values;
  for (std::uint64_t i = 0; i < runs; ++i) values.push_back(run_tool_once(tool, threads, 1) / 1e6);
  return {median(std::move(values))};
}

}  // namespace bench
