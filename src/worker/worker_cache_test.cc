// Tasks that an earlier success stands for, and output that is streamed: rota::Worker as a host sees it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "fiber/testing.h"
#include "worker/process_testing.h"
#include "worker/worker_testing.h"

namespace rota {
namespace {

using namespace worker::testing;
using fiber::in_virtual_time;

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "rota-worker-cache-XXXXXX").string()) {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(*this / name) << text; }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(*this / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

Assign named(Assign assign, const std::string& spec) {
  assign.spec = spec;
  assign.workflow = "w";
  assign.stage = "s";
  assign.name = "s";
  return assign;
}

// The log lines and the final report.
struct Told {
  std::string logs;
  Report end;
};
Told run(Host& host, const Assign& assign) {
  host.send(assign);
  Told told;
  for (;;) {
    told.end = host.next();
    if (told.end.kind == ReportKind::kLog) told.logs += told.end.text + "\n";
    if (told.end.task == 0 || is_final(told.end.kind)) return told;
  }
}

// Contract: C-1. A command whose success is kept is not run again, in another life of the worker either; why it runs is
// told when it begins and when it has ended. A failure, a cancellation and a worker without a cache keep nothing.
TEST(WorkerCache, Commands) {
  const Folder folder;
  folder.write("in", "1");
  WorkerOptions options = with_commands();
  options.cache_directory = folder / "cache";
  const auto spec = [&](const std::string& run) {
    return "{\"run\":\"" + run + "\",\"dir\":\"" + (folder / "") + "\",\"cache\":{\"files\":[\"in\"]}}";
  };
  const std::string counts = spec("echo ran >> count; wc -l < count");
  const auto in_a_life = [&](const std::function<void(Host&)>& body) {
    in_runtime([&] { with_worker(options, [](Worker&) {}, [&](Host& host, Worker&) { body(host); }); });
  };
  in_a_life([&](Host& host) {
    const Told first = run(host, named(command_task(1, ""), counts));
    EXPECT_EQ(first.logs, "runs: no earlier success\n");
    EXPECT_EQ(first.end.json, "1");
    EXPECT_FALSE(first.end.cached);
    EXPECT_EQ(first.end.note, "runs: no earlier success");
    const Told second = run(host, named(command_task(2, ""), counts));
    EXPECT_EQ(second.logs, "");
    EXPECT_EQ(second.end.kind, ReportKind::kSucceeded);
    EXPECT_EQ(second.end.json, "1");
    EXPECT_TRUE(second.end.cached);
    EXPECT_TRUE(second.end.note.starts_with("command, inputs, environment and 1 file are unchanged since "));
    EXPECT_EQ(second.end.log_path, "");
  });
  in_a_life([&](Host& host) {
    EXPECT_TRUE(run(host, named(command_task(1, ""), counts)).end.cached);
    folder.write("in", "2");
    const Told changed = run(host, named(command_task(2, ""), counts));
    EXPECT_EQ(changed.end.note, "runs: the file in changed");
    EXPECT_EQ(changed.end.json, "2");
    const std::string fails = spec("echo ran >> count; exit 3");
    EXPECT_EQ(run(host, named(command_task(3, ""), fails)).end.note, "runs: the command changed");
    EXPECT_EQ(run(host, named(command_task(4, ""), fails)).end.kind, ReportKind::kFailed);
    // Cancelled while it runs.
    host.send(named(command_task(5, ""), spec("echo log up >&3; sleep 1000")));
    while (host.next().text != "up") {
    }
    host.send(Stop{.task = 5, .attempt = 1, .term = 1});
    EXPECT_EQ(host.final(5).kind, ReportKind::kCancelled);
    EXPECT_TRUE(run(host, named(command_task(6, ""), counts)).end.cached);
    EXPECT_EQ(folder.read("count"), "ran\nran\nran\nran\n");
  });
  options.cache_reuse = false;
  in_a_life([&](Host& host) {
    EXPECT_EQ(run(host, named(command_task(1, ""), counts)).end.note, "runs: earlier results are not to be used");
    EXPECT_EQ(run(host, named(command_task(2, ""), counts)).end.json, "6");
  });
  options.cache_directory.clear();
  in_a_life([&](Host& host) {
    EXPECT_EQ(run(host, named(command_task(1, ""), counts)).end.note, "runs: this worker keeps no results");
  });
}

// Contract: C-1. Handlers likewise; merged tasks never, whatever they say.
TEST(WorkerCache, Handlers) {
  in_virtual_time([] {
    const Folder folder;
    folder.write("in", "1");
    WorkerOptions options = handlers_only();
    options.cache_directory = folder / "cache";
    const std::string spec = "{\"inputs\":{\"n\":1},\"cache\":{\"files\":[\"in\"],\"dir\":\"" + (folder / "") + "\"}}";
    int runs = 0;
    with_worker(
        options,
        [&](Worker& worker) {
          ASSERT_TRUE(worker.handle("count", [&](TaskContext&) { return "[" + std::to_string(++runs) + "]"; }).ok());
        },
        [&](Host& host, Worker&) {
          EXPECT_EQ(run(host, named(handler_task(1, "count"), spec)).end.json, "[1]");
          const Told again = run(host, named(handler_task(2, "count"), spec));
          EXPECT_TRUE(again.end.cached);
          EXPECT_EQ(again.end.json, "[1]");
          Assign merged = named(handler_task(3, "count"), spec);
          merged.children = {{3, 1, "1"}};
          EXPECT_FALSE(run(host, merged).end.cached);
          EXPECT_EQ(runs, 2);
        });
  });
}

// Contract: U-1. A life has one number, told with every registration; another life has another.
TEST(WorkerIncarnation, IsOfItsLife) {
  std::vector<std::uint64_t> numbers;
  for (int life = 0; life < 4; ++life) {
    in_virtual_time([&] {
      WorkerOptions options = handlers_only();
      if (life == 3) options.incarnation = 42;
      with_worker(
          options, [](Worker& worker) { ASSERT_TRUE(worker.handle("h", [](TaskContext&) { return "1"; }).ok()); },
          [&](Host& host, Worker&) {
            host.send(handler_task(1, "h"));
            host.final(1);
            ASSERT_FALSE(host.hellos.empty());
            for (const bus::Register& hello : host.hellos) {
              EXPECT_NE(hello.incarnation, 0U);
              EXPECT_EQ(hello.incarnation, host.hellos.front().incarnation);
            }
            numbers.push_back(host.hellos.front().incarnation);
          });
    });
  }
  // in_virtual_time() runs a body under several seeds.
  EXPECT_EQ(std::set<std::uint64_t>(numbers.begin(), numbers.end()).size(),
            numbers.size() - static_cast<std::size_t>(std::count(numbers.begin(), numbers.end(), 42U)) + 1);
  EXPECT_EQ(numbers.back(), 42U);
}

// Contract: U-2. What a command writes is streamed while it runs, if somebody wants it: all of it, in order, each byte
// with its stream; else nothing is.
TEST(WorkerOutput, IsStreamed) {
  for (const bool wanted : {true, false}) {
    const Folder folder;
    WorkerOptions options = with_commands();
    options.stream_output = wanted;
    in_runtime([&] {
      with_worker(
          options, [](Worker&) {},
          [&](Host& host, Worker&) {
            // It ends only after its first words have come.
            host.send(command_task(1, "echo first; echo oh >&2; while [ ! -e " + (folder / "go") +
                                          " ]; do sleep 0.01; done; seq 1 30000; printf last"));
            if (!wanted) folder.write("go", "");
            std::string out;
            std::string err;
            Report report;
            do {
              report = host.next();
              if (report.kind == ReportKind::kOutput) {
                EXPECT_TRUE(wanted);
                EXPECT_EQ(report.dropped_bytes, 0U);
                EXPECT_LE(report.text.size(), 64U * 1024);
                (report.from_stderr ? err : out) += report.text;
              }
              if (wanted && !out.empty() && !err.empty()) folder.write("go", "");
            } while (!is_final(report.kind));
            EXPECT_EQ(report.json, "\"last\"");
            if (!wanted) return;
            EXPECT_EQ(err, "oh\n");
            EXPECT_TRUE(out.starts_with("first\n1\n2\n"));
            EXPECT_TRUE(out.ends_with("29999\n30000\nlast"));
          });
    });
  }
}

// Contract: U-2. One that prints without end is streamed within a bound, and what is missing is counted.
TEST(WorkerOutput, IsBounded) {
  WorkerOptions options = with_commands();
  options.stream_output = true;
  in_runtime([&] {
    with_worker(
        options, [](Worker&) {},
        [](Host& host, Worker&) {
          host.send(command_task(1, "yes | head -c 30000000"));
          std::uint64_t told = 0;
          std::uint64_t dropped = 0;
          Report report;
          do {
            report = host.next();
            told += report.kind == ReportKind::kOutput ? report.text.size() : 0;
            dropped += report.dropped_bytes;
          } while (!is_final(report.kind));
          EXPECT_EQ(told + dropped, 30'000'000U);
          EXPECT_GT(dropped, 0U);
        });
  });
}

}  // namespace
}  // namespace rota
