// Files of tasks: a worker fetches them before a task and stores them after it.
#include "worker/task_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "fiber/testing.h"
#include "worker/process_testing.h"
#include "worker/worker_testing.h"

namespace rota {
namespace {

using namespace worker::testing;  // NOLINT(*-build-using-namespace)
using model::StoredFile;
using testing::ElementsAre;
using testing::HasSubstr;
using worker::TaskFiles;

namespace fs = std::filesystem;

const std::function<bool()> kGoOn = [] { return false; };
const std::vector<std::string> kAll{"*"};

// With one seed: what is tested here are files, which every seed would sync again.
void in_virtual_time(const std::function<void()>& body) {
  fiber::Runtime runtime({.worker_count = 1, .deterministic_seed = 1});
  runtime.run(body);
}

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "rota-task-files-XXXXXX").string()) {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(*this / name).parent_path());
    std::ofstream(*this / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(*this / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

std::string sha256_of(const std::string& bytes) {
  net::ContentHash hash;
  hash.add(bytes);
  return hash.finish();
}
StoredFile file_of(const std::string& path, const std::string& content) {
  return {path, sha256_of(content), static_cast<std::int64_t>(content.size()), false};
}
std::string content_path(const std::string& store, const std::string& content) {
  const std::string sha256 = sha256_of(content);
  return store + "/sha256/" + sha256.substr(0, 2) + "/" + sha256.substr(2);
}
void damage(const std::string& path) {
  fs::permissions(path, fs::perms::owner_all);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.put('!');
}

// A host that keeps contents in a folder, and fails as it is told to.
struct FakeHost {
  explicit FakeHost(const std::string& folder) : store({.directory = folder}) {}

  FileSources sources(const std::string& cache) {
    FileSources files;
    files.cache_directory = cache;
    files.put = [this](const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                       std::string_view piece) -> Result<std::uint64_t> {
      ++puts;
      if (refuse) return *refuse;
      if (unreachable > 0 && unreachable-- > 0) return Error{ErrorCode::kUnavailable, "nobody answers"};
      ROTA_TRY_ASSIGN(net::FileWriter writer, store.write(sha256, bytes));
      if (writer.is_stored() || (!piece.empty() && writer.position() != offset)) return writer.position();
      ROTA_TRY(writer.append(piece));
      received += piece.size();
      if (writer.position() == bytes) ROTA_TRY(writer.finish());
      return writer.position();
    };
    files.get = [this](const std::string& sha256, std::uint64_t offset, std::size_t most) -> Result<std::string> {
      ++gets;
      if (unreachable > 0 && unreachable-- > 0) return Error{ErrorCode::kUnavailable, "nobody answers"};
      ROTA_TRY_ASSIGN(const net::FileReader reader, store.read(sha256));
      ROTA_TRY_ASSIGN(std::string piece, reader.read(offset, most));
      if (garble > 0 && garble-- > 0) piece.front() = static_cast<char>(piece.front() ^ 1);
      sent += piece.size();
      return piece;
    };
    files.check = [this](const std::string& sha256) { return store.verify(sha256, kGoOn); };
    return files;
  }

  net::FileStore store;
  int puts = 0;
  int gets = 0;
  int unreachable = 0;  // So many requests fail.
  int garble = 0;       // So many pieces arrive with a wrong bit.
  std::optional<Error> refuse{};
  std::size_t received = 0;
  std::size_t sent = 0;
};

// Contract: U-6. What one worker stores, another one gets, by a folder that both share: with its content, its path and
// its right to be executed.
TEST(TaskFilesTest, ASharedFolder) {
  in_virtual_time([&] {
    const Folder folder;
    folder.write("a/out/x.bin", "content");
    folder.write("a/out/deep/run.sh", "#!/bin/sh\n");
    folder.write("a/other", "not an output");
    fs::permissions(folder / "a/out/deep/run.sh", fs::perms::owner_all);
    TaskFiles one({.directory = folder / "store"});
    const Result<std::vector<StoredFile>> stored = one.store({"out/*.bin", "out/deep/"}, folder / "a", kGoOn);
    ASSERT_TRUE(stored.ok()) << stored.error().message;
    StoredFile script = file_of("out/deep/run.sh", "#!/bin/sh\n");
    script.executable = true;
    EXPECT_THAT(*stored, ElementsAre(script, file_of("out/x.bin", "content")));
    EXPECT_TRUE(one.has(*stored));
    for (const bool cached : {false, true}) {
      const std::string to = folder / (cached ? "c" : "b");
      TaskFiles two({.directory = folder / "store", .cache_directory = cached ? folder / "cache" : ""});
      EXPECT_TRUE(two.fetch(*stored, to, kGoOn).ok());
      EXPECT_EQ(std::ifstream(to + "/out/x.bin").get(), 'c');
      EXPECT_EQ(::access((to + "/out/deep/run.sh").c_str(), X_OK), 0);
      EXPECT_EQ(two.cached().size(), cached ? 2U : 0U);
    }
  });
}

// Contract: U-6. A task that made none of its outputs has not succeeded, and is told which; paths stay inside.
TEST(TaskFilesTest, WhatIsMissingOrOutsideIsNamed) {
  in_virtual_time([&] {
    const Folder folder;
    folder.write("a/out", "x");
    TaskFiles files({.directory = folder / "store"});
    const auto missing = files.store({"out", "none-*.bin"}, folder / "a", kGoOn);
    EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
    EXPECT_EQ(missing.error().message,
              "the task made no file 'none-*.bin', which its outputs name, in '" + folder / "a" + "'");
    EXPECT_EQ(files.store({"../a/out"}, folder / "a", kGoOn).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(files.store({"/etc/passwd"}, folder / "a", kGoOn).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(files.fetch({file_of("../b/x", "x")}, folder / "b", kGoOn).code(), ErrorCode::kInvalidArgument);
    const Result<void> gone = files.fetch({file_of("x", "never stored")}, folder / "b", kGoOn);
    EXPECT_EQ(gone.code(), ErrorCode::kNotFound);
    EXPECT_THAT(gone.error().message, HasSubstr("the file 'x' was not fetched: "));
  });
}

// Contract: U-6. A file that is there with the right content is left alone; another one is replaced as a whole.
TEST(TaskFilesTest, AFileThatIsThereIsNotCopiedAgain) {
  in_virtual_time([&] {
    const Folder folder;
    folder.write("a/x", "content");
    TaskFiles files({.directory = folder / "store"});
    const auto stored = files.store({"x"}, folder / "a", kGoOn);
    ASSERT_TRUE(stored.ok());
    const auto before = fs::last_write_time(folder / "a/x");
    EXPECT_TRUE(files.fetch(*stored, folder / "a", kGoOn).ok());
    EXPECT_EQ(fs::last_write_time(folder / "a/x"), before);
    folder.write("a/x", "another");
    EXPECT_TRUE(files.fetch(*stored, folder / "a", kGoOn).ok());
    EXPECT_EQ(folder.read("a/x"), "content");
  });
}

// Contract: U-6. By the host: in pieces, verified where they arrive; a worker that has a content fetches it no more.
TEST(TaskFilesTest, ByTheHost) {
  in_virtual_time([&] {
    const Folder folder;
    const std::string large(3 * TaskFiles::kPieceBytes + 5, 'x');
    folder.write("a/large", large);
    folder.write("a/empty", "");
    FakeHost host(folder / "host");
    TaskFiles one(host.sources(folder / "cache-1"));
    const auto stored = one.store(kAll, folder / "a", kGoOn);
    ASSERT_TRUE(stored.ok()) << stored.error().message;
    EXPECT_EQ(host.received, large.size());
    EXPECT_TRUE(one.store(kAll, folder / "a", kGoOn).ok());
    EXPECT_EQ(host.received, large.size()) << "the host has it";
    EXPECT_TRUE(one.fetch(*stored, folder / "same", kGoOn).ok());
    EXPECT_EQ(host.sent, 0U) << "its own cache has it";
    TaskFiles two(host.sources(folder / "cache-2"));
    ASSERT_TRUE(two.fetch(*stored, folder / "b", kGoOn).ok());
    EXPECT_EQ(folder.read("b/large"), large);
    EXPECT_TRUE(fs::exists(folder / "b/empty"));
    EXPECT_EQ(host.sent, large.size());
    EXPECT_TRUE(two.fetch(*stored, folder / "c", kGoOn).ok());
    EXPECT_EQ(host.sent, large.size());
    EXPECT_EQ(two.cached().size(), 2U);
    EXPECT_EQ(two.cached().front().item.substr(0, 5), "file:");
  });
}

// Contract: U-6. An upload and a download that break off continue where they were, also in another process.
TEST(TaskFilesTest, TransfersAreResumed) {
  in_virtual_time([&] {
    const Folder folder;
    std::string large(4 * TaskFiles::kPieceBytes, 'x');
    large += "end";
    folder.write("a/large", large);
    FakeHost host(folder / "host");
    int pieces = 0;
    const auto stop_after_two = [&] { return host.received >= 2 * TaskFiles::kPieceBytes || ++pieces > 10'000; };
    TaskFiles killed(host.sources(folder / "cache-1"));
    EXPECT_EQ(killed.store(kAll, folder / "a", stop_after_two).code(), ErrorCode::kCancelled);
    const std::size_t before = host.received;
    EXPECT_GE(before, 2 * TaskFiles::kPieceBytes);
    EXPECT_LT(before, large.size());
    host.unreachable = 3;  // In the middle, the host is restarted.
    TaskFiles again(host.sources(folder / "cache-2"));
    const auto stored = again.store(kAll, folder / "a", kGoOn);
    ASSERT_TRUE(stored.ok()) << stored.error().message;
    EXPECT_EQ(host.received, large.size()) << "no byte was sent twice";

    TaskFiles cut(host.sources(folder / "cache-3"));
    EXPECT_EQ(cut.fetch(*stored, folder / "b", [&] { return host.sent >= TaskFiles::kPieceBytes; }).code(),
              ErrorCode::kCancelled);
    const std::size_t fetched = host.sent;
    EXPECT_LT(fetched, large.size());
    host.unreachable = 2;
    TaskFiles next(host.sources(folder / "cache-3"));
    ASSERT_TRUE(next.fetch(*stored, folder / "b", kGoOn).ok());
    EXPECT_EQ(host.sent, large.size());
    EXPECT_EQ(folder.read("b/large"), large);
  });
}

// Contract: U-6. A host that stays away is given up after a while; one that is full says so at once.
TEST(TaskFilesTest, AnUnreachableHostIsWaitedForAndAFullOneIsNot) {
  in_virtual_time([&] {
    const Folder folder;
    folder.write("a/x", "content");
    FakeHost host(folder / "host");
    TaskFiles files(host.sources(folder / "cache"));
    host.refuse = Error{ErrorCode::kUnavailable, "nobody answers"};
    const auto began = fiber::now();
    const auto away = files.store({"x"}, folder / "a", kGoOn);
    EXPECT_EQ(away.code(), ErrorCode::kUnavailable);
    EXPECT_GE(fiber::now() - began, TaskFiles::kPatience);
    EXPECT_GT(host.puts, 10);
    host.refuse = Error{ErrorCode::kNoSpace, "the store is full"};
    host.puts = 0;
    const auto full = files.store({"x"}, folder / "a", kGoOn);
    EXPECT_EQ(full.code(), ErrorCode::kNoSpace);
    EXPECT_EQ(full.error().message, "the output 'x' was not stored: the store is full");
    EXPECT_EQ(host.puts, 1);
  });
}

// Contract: U-6. Bytes that arrive damaged are fetched again; a content that is damaged in the store is removed there,
// and the task fails with the reason.
TEST(TaskFilesTest, DamageOnTheWayAndInTheStore) {
  in_virtual_time([&] {
    const Folder folder;
    folder.write("a/x", "content");
    FakeHost host(folder / "host");
    TaskFiles one(host.sources(folder / "cache-1"));
    const auto stored = one.store({"x"}, folder / "a", kGoOn);
    ASSERT_TRUE(stored.ok());
    host.garble = 1;
    TaskFiles two(host.sources(folder / "cache-2"));
    EXPECT_TRUE(two.fetch(*stored, folder / "b", kGoOn).ok());
    EXPECT_EQ(folder.read("b/x"), "content");
    EXPECT_EQ(host.gets, 2);
    // In the worker's own cache: it fetches the content once more.
    damage(content_path(folder / "cache-2", "content"));
    EXPECT_TRUE(two.fetch(*stored, folder / "c", kGoOn).ok());
    EXPECT_EQ(folder.read("c/x"), "content");
    EXPECT_EQ(host.gets, 3);
    // At the host.
    damage(content_path(folder / "host", "content"));
    TaskFiles three(host.sources(folder / "cache-3"));
    const Result<void> damaged = three.fetch(*stored, folder / "d", kGoOn);
    EXPECT_EQ(damaged.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(damaged.error().message, HasSubstr("is damaged"));
    EXPECT_FALSE(fs::exists(folder / "d/x"));
    EXPECT_TRUE(one.store({"x"}, folder / "a", kGoOn).ok());
    EXPECT_TRUE(three.fetch(*stored, folder / "d", kGoOn).ok()) << "it was stored anew";
    // In a shared folder.
    for (const bool cached : {false, true}) {
      TaskFiles shared({.directory = folder / "store", .cache_directory = cached ? folder / "cache-4" : ""});
      ASSERT_TRUE(shared.store({"x"}, folder / "a", kGoOn).ok());
      if (cached) fs::remove_all(folder / "cache-4");
      damage(content_path(folder / "store", "content"));
      const Result<void> refused = shared.fetch(*stored, folder / "e", kGoOn);
      EXPECT_EQ(refused.code(), ErrorCode::kCorrupt);
      EXPECT_THAT(refused.error().message, HasSubstr("is damaged"));
      EXPECT_FALSE(fs::exists(folder / "e/x"));
    }
  });
}

// ------------------------------------------------------------------------------------------------- as a host sees it

Assign with_files(Assign assign, std::vector<std::string> outputs, std::vector<StoredFile> files,
                  const std::string& directory) {
  assign.spec.files = model::FilesSpec{.outputs = std::move(outputs)};
  if (assign.spec.program) {
    assign.spec.program->directory = directory;
  } else {
    assign.spec.files->directory = directory;
  }
  assign.files = std::move(files);
  assign.identity = {.workflow = "w", .stage = "s", .name = "s"};
  return assign;
}

// Contract: U-6. A program finds the files that were fetched; those that it makes are stored before its success is
// reported; without one of them, it has failed.
TEST(WorkerFiles, Programs) {
  const Folder folder;
  for (const char* name : {"one", "two"}) fs::create_directories(folder / name);
  WorkerOptions options = with_programs();
  options.files.directory = folder / "store";
  options.files.cache_directory = folder / "cache";
  in_runtime([&] {
    with_worker(
        options, [](Worker&) {},
        [&](Host& host, Worker&) {
          host.send(with_files(program_task(1, "echo hello > out.txt"), {"*.txt"}, {}, folder / "one"));
          const AttemptOutcome made = host.final(1);
          ASSERT_EQ(made.end, AttemptEnd::kSucceeded) << made.message;
          EXPECT_THAT(made.outputs, ElementsAre(file_of("out.txt", "hello\n")));
          EXPECT_EQ(std::ifstream(content_path(folder / "store", "hello\n")).get(), 'h');

          std::vector<StoredFile> files = made.outputs;
          files.front().path = "in/out.txt";
          host.send(with_files(program_task(2, "wc -c < in/out.txt"), {}, files, folder / "two"));
          const AttemptOutcome used = host.final(2);
          EXPECT_EQ(used.result, "6") << used.message;
          EXPECT_TRUE(used.outputs.empty());

          host.send(with_files(program_task(3, "true"), {"none"}, {}, folder / "one"));
          const AttemptOutcome missing = host.final(3);
          EXPECT_EQ(missing.end, AttemptEnd::kFailed);
          EXPECT_THAT(missing.message, HasSubstr("the task made no file 'none', which its outputs name"));
          EXPECT_FALSE(missing.final);

          host.send(with_files(program_task(4, "echo ran > ran"), {}, {file_of("x", "never stored")}, folder / "two"));
          const AttemptOutcome gone = host.final(4);
          EXPECT_EQ(gone.end, AttemptEnd::kFailed);
          EXPECT_THAT(gone.message, HasSubstr("the file 'x' was not fetched"));
          EXPECT_EQ(gone.started_ns, 0) << "it did not start";
          EXPECT_FALSE(fs::exists(folder / "two/ran"));
        });
  });
  // A later life of the worker says what it has at hand, so that placement can prefer it.
  in_runtime([&] {
    with_worker(
        options, [](Worker&) {},
        [&](Host& host, Worker&) {
          while (host.hellos.empty()) (void)host.next_message();
          ASSERT_EQ(host.hellos.front().caches.size(), 1U);
          EXPECT_EQ(host.hellos.front().caches.front().item, "file:" + sha256_of("hello\n"));
        });
  });
}

// Contract: U-6. A full store fails the task for good, with the reason; a worker without a store says what to do.
TEST(WorkerFiles, AFullStoreAndNone) {
  const Folder folder;
  WorkerOptions options = with_programs();
  options.files.directory = folder / "store";
  options.files.directory_bytes = 3;
  const Assign task = with_files(program_task(1, "echo hello > out"), {"out"}, {}, folder / "");
  in_runtime([&] {
    with_worker(
        options, [](Worker&) {},
        [&](Host& host, Worker&) {
          host.send(task);
          const AttemptOutcome full = host.final(1);
          EXPECT_EQ(full.end, AttemptEnd::kFailed);
          EXPECT_TRUE(full.final);
          EXPECT_THAT(full.message,
                      HasSubstr("is full: it may have 3B, it has 0B, and a file of 6B does not fit; raise the "
                                "bound with --files-bytes"));
        });
    with_worker(
        with_programs(), [](Worker&) {},
        [&](Host& host, Worker&) {
          host.send(task);
          EXPECT_THAT(host.final(1).message, HasSubstr("this worker has no store for files"));
        });
  });
}

// Contract: U-6. A handler works with files, too.
TEST(WorkerFiles, Handlers) {
  in_virtual_time([&] {
    const Folder folder;
    WorkerOptions options = handlers_only();
    options.files.directory = folder / "store";
    folder.write("a/x", "content");
    std::vector<StoredFile> files;
    {
      TaskFiles store({.directory = folder / "store"});
      files = store.store({"x"}, folder / "a", kGoOn).value();
    }
    const auto prepare = [&](Worker& worker) {
      ASSERT_TRUE(worker
                      .handle("copy",
                              [&](TaskContext& task) -> std::string {
                                const std::string path = task.fetched_files().at(0).path;
                                folder.write("b/y", folder.read("b/" + path) + "!");
                                return "1";
                              })
                      .ok());
    };
    with_worker(options, prepare, [&](Host& host, Worker&) {
      host.send(with_files(handler_task(1, "copy"), {"y"}, files, folder / "b"));
      EXPECT_THAT(host.final(1).outputs, ElementsAre(file_of("y", "content!")));
    });
  });
}

// Contract: U-6, C-1. A result that is kept has its files stored, too; and a task runs again if a fetched file changed.
TEST(WorkerFiles, KeptResults) {
  const Folder folder;
  WorkerOptions options = with_programs();
  options.files.directory = folder / "store";
  options.cache_directory = folder / "results";
  const auto task = [&](std::uint64_t id, std::vector<StoredFile> files) {
    Assign assign = with_files(program_task(id, "cat in > out"), {"out"}, std::move(files), folder / "w");
    assign.spec.cache = model::CacheSpec{.outputs = {"out"}};
    return assign;
  };
  folder.write("a/one", "one");
  folder.write("a/two", "two");
  fs::create_directories(folder / "w");
  in_runtime([&] {
    std::vector<StoredFile> one;
    std::vector<StoredFile> two;
    {
      TaskFiles store({.directory = folder / "store"});
      one = store.store({"one"}, folder / "a", kGoOn).value();
      two = store.store({"two"}, folder / "a", kGoOn).value();
      one.front().path = two.front().path = "in";
    }
    with_worker(
        options, [](Worker&) {},
        [&](Host& host, Worker&) {
          host.send(task(1, one));
          const AttemptOutcome first = host.final(1);
          EXPECT_FALSE(first.reused) << first.message;
          EXPECT_THAT(first.outputs, ElementsAre(file_of("out", "one")));
          fs::remove_all(folder / "store/sha256/" + sha256_of("one").substr(0, 2));  // Somebody has cleaned the store.
          folder.write("a/one", "one");
          {
            TaskFiles store({.directory = folder / "store"});
            (void)store.store({"one"}, folder / "a", kGoOn).value();
          }
          host.send(task(2, one));
          const AttemptOutcome second = host.final(2);
          EXPECT_TRUE(second.reused) << second.cache_note << second.message;
          EXPECT_THAT(second.outputs, ElementsAre(file_of("out", "one")));
          host.send(task(3, two));
          const AttemptOutcome third = host.final(3);
          EXPECT_FALSE(third.reused);
          EXPECT_THAT(third.cache_note, HasSubstr("the fetched file in changed"));
          EXPECT_THAT(third.outputs, ElementsAre(file_of("out", "two")));
        });
  });
}

}  // namespace
}  // namespace rota
