// Results that are kept and used again, and output that is streamed: rota::Worker as a host sees it.
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
#include "worker/output_stream.h"
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

Assign with_cache(Assign assign, const std::string& directory) {
  assign.spec.cache = model::CacheSpec{.files = {"in"}, .directory = directory};
  assign.identity = {.workflow = "w", .stage = "s", .name = "s"};
  return assign;
}

// The log lines and the final report.
struct Told {
  std::string logs;
  AttemptOutcome end;
};
Told run(Host& host, const Assign& assign) {
  host.send(assign);
  Told told;
  for (;;) {
    const Report report = host.next();
    if (kind_of(report) == "log") told.logs += text_of(report) + "\n";
    if (report.is_final()) told.end = outcome_of(report);
    if (report.id.task.is_none() || report.is_final()) return told;
  }
}

// Contract: C-1. A program whose result is kept is not run again, in a later life of the worker either. The reason for
// a run is reported when it begins and when it has ended. A failure, a cancellation and a worker without a cache keep
// nothing.
TEST(WorkerCache, Programs) {
  const Folder folder;
  folder.write("in", "1");
  WorkerOptions options = with_programs();
  options.cache_directory = folder / "cache";
  const auto cached = [&](std::uint64_t task, const std::string& script) {
    Assign assign = with_cache(program_task(task, script), "");
    assign.spec.program->directory = folder / "";
    return assign;
  };
  const std::string counts = "echo ran >> count; wc -l < count";
  const auto in_a_life = [&](const std::function<void(Host&)>& body) {
    in_runtime([&] { with_worker(options, [](Worker&) {}, [&](Host& host, Worker&) { body(host); }); });
  };
  in_a_life([&](Host& host) {
    const Told first = run(host, cached(1, counts));
    EXPECT_EQ(first.logs, "runs: no earlier success\n");
    EXPECT_EQ(first.end.result, "1");
    EXPECT_FALSE(first.end.reused);
    EXPECT_EQ(first.end.cache_note, "runs: no earlier success");
    const Told second = run(host, cached(2, counts));
    EXPECT_EQ(second.logs, "");
    EXPECT_EQ(second.end.end, AttemptEnd::kSucceeded);
    EXPECT_EQ(second.end.result, "1");
    EXPECT_TRUE(second.end.reused);
    EXPECT_GE(second.end.started_ns, first.end.ended_ns) << "a task whose result was used again has its times";
    EXPECT_LE(second.end.started_ns, second.end.ended_ns);
    EXPECT_TRUE(second.end.cache_note.starts_with("program, inputs, environment and 1 file are unchanged since "));
    EXPECT_EQ(second.end.log_path, "");
  });
  in_a_life([&](Host& host) {
    EXPECT_TRUE(run(host, cached(1, counts)).end.reused);
    folder.write("in", "2");
    const Told changed = run(host, cached(2, counts));
    EXPECT_EQ(changed.end.cache_note, "runs: the file in changed");
    EXPECT_EQ(changed.end.result, "2");
    const std::string fails = "echo ran >> count; exit 3";
    EXPECT_EQ(run(host, cached(3, fails)).end.cache_note, "runs: the program changed");
    EXPECT_EQ(run(host, cached(4, fails)).end.end, AttemptEnd::kFailed);
    // Cancelled while it runs.
    host.send(cached(5, "echo log up >&3; sleep 1000"));
    while (text_of(host.next()) != "up") {
    }
    host.send(control(5));
    EXPECT_EQ(host.final(5).end, AttemptEnd::kCancelled);
    EXPECT_TRUE(run(host, cached(6, counts)).end.reused);
    EXPECT_EQ(folder.read("count"), "ran\nran\nran\nran\n");
  });
  options.cache_reuse = false;
  in_a_life([&](Host& host) {
    EXPECT_EQ(run(host, cached(1, counts)).end.cache_note, "runs: the worker was told not to use kept results");
    EXPECT_EQ(run(host, cached(2, counts)).end.result, "6");
  });
  options.cache_directory.clear();
  in_a_life([&](Host& host) {
    EXPECT_EQ(run(host, cached(1, counts)).end.cache_note, "runs: this worker keeps no results");
  });
}

// Contract: C-1. The same for handlers; results of merged tasks are never kept.
TEST(WorkerCache, Handlers) {
  in_virtual_time([] {
    const Folder folder;
    folder.write("in", "1");
    WorkerOptions options = handlers_only();
    options.cache_directory = folder / "cache";
    const auto cached = [&](std::uint64_t task) {
      return with_cache(handler_task(task, "count", R"({"n":1})"), folder / "");
    };
    int runs = 0;
    with_worker(
        options,
        [&](Worker& worker) {
          ASSERT_TRUE(worker.handle("count", [&](TaskContext&) { return "[" + std::to_string(++runs) + "]"; }).ok());
        },
        [&](Host& host, Worker&) {
          EXPECT_EQ(run(host, cached(1)).end.result, "[1]");
          const Told again = run(host, cached(2));
          EXPECT_TRUE(again.end.reused);
          EXPECT_EQ(again.end.result, "[1]");
          Assign merged = cached(3);
          merged.merged = {{.id = merged.id, .inputs = "1"}};
          EXPECT_FALSE(run(host, merged).end.reused);
          EXPECT_EQ(runs, 2);
        });
  });
}

// Contract: U-1. A life of a worker has one number, sent with every registration; another life has another number.
TEST(WorkerIncarnation, IsOfItsLife) {
  std::vector<model::Incarnation> numbers;
  for (int life = 0; life < 4; ++life) {
    in_virtual_time([&] {
      WorkerOptions options = handlers_only();
      if (life == 3) options.incarnation = model::Incarnation(42);
      with_worker(
          options, [](Worker& worker) { ASSERT_TRUE(worker.handle("h", [](TaskContext&) { return "1"; }).ok()); },
          [&](Host& host, Worker&) {
            host.send(handler_task(1, "h"));
            host.final(1);
            ASSERT_FALSE(host.hellos.empty());
            for (const model::Register& hello : host.hellos) {
              EXPECT_FALSE(hello.incarnation.is_none());
              EXPECT_EQ(hello.incarnation, host.hellos.front().incarnation);
            }
            numbers.push_back(host.hellos.front().incarnation);
          });
    });
  }
  // in_virtual_time() runs a body under several seeds.
  const model::Incarnation given(42);
  EXPECT_EQ(std::set<model::Incarnation>(numbers.begin(), numbers.end()).size(),
            numbers.size() - static_cast<std::size_t>(std::count(numbers.begin(), numbers.end(), given)) + 1);
  EXPECT_EQ(numbers.back(), given);
}

// Contract: U-2. The output of a program is streamed while it runs if the worker was told to: all of it, in order, each
// byte with its stream. Otherwise nothing is streamed.
TEST(WorkerOutput, IsStreamed) {
  for (const bool wanted : {true, false}) {
    const Folder folder;
    WorkerOptions options = with_programs();
    options.stream_output = wanted;
    in_runtime([&] {
      with_worker(
          options, [](Worker&) {},
          [&](Host& host, Worker&) {
            // The program ends only after its first output has arrived.
            host.send(program_task(1, "echo first; echo oh >&2; while [ ! -e " + (folder / "go") +
                                          " ]; do sleep 0.01; done; seq 1 30000; printf last"));
            if (!wanted) folder.write("go", "");
            std::string out;
            std::string err;
            Report report;
            do {
              report = host.next();
              if (const auto* output = std::get_if<model::Output>(&report.body)) {
                EXPECT_TRUE(wanted);
                EXPECT_EQ(output->dropped_bytes, 0U);
                EXPECT_LE(output->bytes.size(), 64U * 1024);
                (output->from_stderr ? err : out) += output->bytes;
              }
              if (wanted && !out.empty() && !err.empty()) folder.write("go", "");
            } while (!report.is_final());
            EXPECT_EQ(outcome_of(report).result, "\"last\"");
            if (!wanted) return;
            EXPECT_EQ(err, "oh\n");
            EXPECT_TRUE(out.starts_with("first\n1\n2\n"));
            EXPECT_TRUE(out.ends_with("29999\n30000\nlast"));
          });
    });
  }
}

// Contract: U-2. The output of a program that prints without end is streamed at a bounded rate, and dropped bytes are
// counted.
TEST(WorkerOutput, IsBounded) {
  WorkerOptions options = with_programs();
  options.stream_output = true;
  in_runtime([&] {
    with_worker(
        options, [](Worker&) {},
        [](Host& host, Worker&) {
          host.send(program_task(1, "yes | head -c 30000000"));
          std::uint64_t told = 0;
          std::uint64_t dropped = 0;
          std::uint64_t notes = 0;
          const std::chrono::nanoseconds begin = fiber::now();
          Report report;
          do {
            report = host.next();
            if (const auto* output = std::get_if<model::Output>(&report.body)) {
              EXPECT_EQ(output->position, told);
              told += output->bytes.size();
              dropped += output->dropped_bytes;
              notes += output->dropped_bytes > 0 ? output->bytes.find("]\n") + 2 : 0;
            }
          } while (!report.is_final());
          EXPECT_EQ(told - notes + dropped, 30'000'000U);
          // A machine that takes half a minute for it has nothing to drop.
          const auto seconds = static_cast<std::uint64_t>((fiber::now() - begin) / 1s) + 2;
          EXPECT_LE(told - notes,
                    seconds * worker::OutputStream::kBytesPerSecond + 2 * worker::OutputStream::kTailBytes);
        });
  });
}

}  // namespace
}  // namespace rota
