// The cache of results: when a kept result is used, when not, and the note about it.
#include "worker/result_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"

namespace rota::worker {
namespace {

namespace fs = std::filesystem;

const std::function<bool()> kGoesOn = [] { return false; };

class ResultCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rota-cache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(work());
    write("in.csv", "1");
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string work() const { return folder_ + "/work"; }
  [[nodiscard]] std::string store() const { return folder_ + "/store"; }
  void write(const std::string& path, const std::string& text) const {
    std::ofstream(work() + "/" + path, std::ios::binary) << text;
  }
  [[nodiscard]] std::vector<fs::path> files(const std::string& part) const {
    std::vector<fs::path> all;
    if (!fs::exists(store() + "/" + part)) return all;
    for (const auto& entry : fs::directory_iterator(store() + "/" + part)) all.push_back(entry.path());
    return all;
  }
  [[nodiscard]] model::TaskSpec spec(std::vector<std::string> files = {"*.csv"},
                                     std::vector<std::string> outputs = {}) const {
    model::TaskSpec spec;
    spec.program.emplace().shell = "x";
    spec.program->directory = work();
    spec.cache = model::CacheSpec{.files = std::move(files), .outputs = std::move(outputs)};
    return spec;
  }
  static model::TaskIdentity identity(const std::string& item = "") {
    return {.workflow = "w", .stage = "s", .item = item, .name = "s" + item};
  }
  // Asks the cache; if the task has to run, calls `run` and lets it succeed with this result. Returns the notes, or
  // "hit RESULT".
  std::string once(
      ResultCache& cache, const model::TaskSpec& of, const std::string& result = "7",
      const std::function<void()>& run = [] {}, const model::TaskIdentity& who = identity()) {
    CacheCheck check(cache, who, of);
    const CacheCheck::Verdict verdict = check.begin(kGoesOn);
    if (verdict.hit) {
      hit_note_ = verdict.note;
      return "hit " + verdict.result;
    }
    run();
    const std::string not_kept = check.end(result, kGoesOn);
    return verdict.note + (not_kept.empty() ? "" : "; " + not_kept);
  }
  std::string once(
      const model::TaskSpec& of, const std::string& result = "7", const std::function<void()>& run = [] {},
      const model::TaskIdentity& who = identity()) {
    ResultCache cache(store());
    return once(cache, of, result, run, who);
  }

  ResultCache& cache_of_test() {
    if (cache_ == nullptr) cache_ = std::make_unique<ResultCache>(store());
    return *cache_;
  }

  std::string folder_;
  std::string hit_note_;
  std::unique_ptr<ResultCache> cache_;
};

// Contract: C-1. An unchanged task is not run again; a change of any part is a reason to run, and the note names it.
TEST_F(ResultCacheTest, UnchangedAndChanged) {
  EXPECT_EQ(once(spec()), "runs: no earlier success");
  EXPECT_EQ(once(spec()), "hit 7");
  EXPECT_TRUE(hit_note_.starts_with("program, inputs, environment and 1 file are unchanged since 20")) << hit_note_;
  EXPECT_TRUE(hit_note_.ends_with(" UTC (workflow w, task s)")) << hit_note_;
  write("in.csv", "2");
  EXPECT_EQ(once(spec(), "8"), "runs: the file in.csv changed");
  write("other.csv", "3");
  EXPECT_EQ(once(spec(), "9"), "runs: the file other.csv is new");
  model::TaskSpec changed = spec();
  changed.inputs = R"({"a":1})";
  EXPECT_EQ(once(changed), "runs: the inputs changed");
  changed = spec();
  changed.program->environment = {{"A", "1"}};
  EXPECT_EQ(once(changed), "runs: the inputs changed and the variable A is new");
  // Back at an earlier version, its result is found; and the next change is compared with this version.
  fs::remove(work() + "/other.csv");
  EXPECT_EQ(once(spec()), "hit 8");
  write("in.csv", "4");
  EXPECT_EQ(once(spec(), "9"), "runs: the file in.csv changed");
}

// Contract: C-1. The outputs of the earlier run must exist, unchanged.
TEST_F(ResultCacheTest, Outputs) {
  const model::TaskSpec of = spec({"*.csv"}, {"out.csv", "made"});
  const auto make = [this] {
    write("out.csv", "made");
    fs::create_directories(work() + "/made");
    write("made/a", "a");
  };
  EXPECT_EQ(once(of, "1"), "runs: no earlier success; not kept: no file matches 'out.csv' of cache.outputs");
  EXPECT_EQ(once(of, "1", make), "runs: no earlier success");
  EXPECT_EQ(once(of), "hit 1") << "outputs are not inputs, although the pattern of files covers them";
  EXPECT_TRUE(hit_note_.ends_with("; its outputs are unchanged")) << hit_note_;
  fs::remove(work() + "/out.csv");
  EXPECT_EQ(once(of, "1", make), "runs: output out.csv is missing");
  write("made/a", "b");
  EXPECT_EQ(once(of, "1", make), "runs: output made/a changed");
  EXPECT_EQ(once(of), "hit 1");
  EXPECT_EQ(once(spec({"*.csv"}, {"made"}), "1", [] {}).substr(0, 28), "runs: cache.outputs changed ");
}

// Contract: C-1. If a file changes while the program runs, it is not known which content the result comes from.
TEST_F(ResultCacheTest, ChangedWhileItRan) {
  EXPECT_EQ(once(spec(), "7", [this] { write("in.csv", "2"); }),
            "runs: no earlier success; not kept: while it ran, the file in.csv changed; list the files that it "
            "writes in cache.outputs");
  EXPECT_EQ(once(spec()), "runs: no earlier success");
  EXPECT_EQ(once(spec()), "hit 7");
}

// Contract: C-1. The same if the file has its former content again when the program has ended.
TEST_F(ResultCacheTest, ChangedAndChangedBackWhileItRan) {
  // Its time stamp is an old one, so that a write is seen however soon it comes.
  fs::last_write_time(work() + "/in.csv", fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto twice = [this] {
    write("in.csv", "2");
    write("in.csv", "1");
  };
  EXPECT_EQ(once(spec(), "7", twice),
            "runs: no earlier success; not kept: while it ran, the file in.csv was written or replaced, so it is "
            "unknown which content it read");
  EXPECT_EQ(once(spec(), "8"), "runs: no earlier success");
  // Between two runs, only the content counts.
  fs::last_write_time(work() + "/in.csv", fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(once(spec()), "hit 8");
}

// Contract: C-1. A file that may no longer be executed, or may be now, is not as it was.
TEST_F(ResultCacheTest, TheRightToBeExecuted) {
  const model::TaskSpec of = spec({"*.csv"}, {"prog"});
  const auto make = [this] {
    write("prog", "made");
    fs::permissions(work() + "/prog", fs::perms::owner_exec, fs::perm_options::add);
  };
  EXPECT_EQ(once(of, "1", make), "runs: no earlier success");
  EXPECT_EQ(once(of), "hit 1");
  fs::permissions(work() + "/prog", fs::perms::owner_exec, fs::perm_options::remove);
  EXPECT_EQ(once(of, "1", make), "runs: output prog changed");
  EXPECT_EQ(once(of), "hit 1");
  fs::permissions(work() + "/in.csv", fs::perms::owner_exec, fs::perm_options::add);
  EXPECT_EQ(once(of, "2", make), "runs: the file in.csv changed");
}

// Contract: C-1. A damaged entry is not used, wherever the damage is, and the note says so; the next success replaces
// it.
TEST_F(ResultCacheTest, Damaged) {
  EXPECT_EQ(once(spec(), R"({"n": 1})"), "runs: no earlier success");
  ASSERT_EQ(files("entries").size(), 1U);
  const fs::path entry = files("entries").front();
  std::ifstream in(entry, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  const auto with = [&](const std::string& bytes) {
    std::ofstream(entry, std::ios::binary | std::ios::trunc) << bytes;
    CacheCheck check(cache_of_test(), identity(), spec());
    return check.begin(kGoesOn);
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const CacheCheck::Verdict verdict = with(bad);
    EXPECT_FALSE(verdict.hit) << at;
    EXPECT_EQ(verdict.note,
              "runs: the kept result of an earlier success cannot be used: '" + entry.string() + "' is damaged");
    EXPECT_FALSE(with(good.substr(0, at)).hit) << at;
  }
  EXPECT_TRUE(with(good).hit);
  EXPECT_FALSE(with(good + "x").hit);
  EXPECT_TRUE(once(spec(), "5").ends_with("is damaged"));
  EXPECT_EQ(once(spec()), "hit 5");
  // The same for the record of the last success.
  std::ofstream(files("tasks").front(), std::ios::binary | std::ios::trunc) << "nonsense";
  write("in.csv", "2");
  EXPECT_TRUE(once(spec()).starts_with("runs: the record of its last success cannot be read: ")) << once(spec());
}

// Tasks of a stage differ by their items, not by their position; a task with an equal program is still another task.
TEST_F(ResultCacheTest, WhoItIs) {
  EXPECT_EQ(once(spec(), "1", [] {}, identity("{\"i\":1}")), "runs: no earlier success");
  EXPECT_EQ(once(spec(), "2", [] {}, identity("{\"i\":2}")), "runs: no earlier success");
  EXPECT_EQ(once(spec(), "", [] {}, identity("{\"i\":1}")), "hit 1");
  EXPECT_EQ(once(spec(), "", [] {}, identity("{\"i\":2}")), "hit 2");
  model::TaskSpec of;
  of.type = "resize";
  of.cache = model::CacheSpec{.files = {"in.csv"}, .directory = work()};
  EXPECT_EQ(once(of, "3"), "runs: no earlier success");
  EXPECT_EQ(once(of, ""), "hit 3");
  EXPECT_TRUE(hit_note_.starts_with("handler, inputs and 1 file are unchanged")) << hit_note_;
  of.type = "crop";
  EXPECT_EQ(once(of, "4"), "runs: the handler changed");
}

// If kept results must not be used, the task runs, and its new result is kept instead.
TEST_F(ResultCacheTest, NotToBeUsed) {
  EXPECT_EQ(once(spec(), "1"), "runs: no earlier success");
  ResultCache again(store(), false);
  EXPECT_EQ(once(again, spec(), "2"), "runs: the worker was told not to use kept results");
  EXPECT_EQ(once(spec()), "hit 2");
}

TEST_F(ResultCacheTest, WhatCannotBeReadOrKept) {
  if (::geteuid() != 0) {
    fs::permissions(work() + "/in.csv", fs::perms::none);
    EXPECT_EQ(once(spec()),
              "runs: the files that it depends on cannot be read: 'in.csv' cannot be read: Permission denied");
    fs::permissions(work() + "/in.csv", fs::perms::owner_all);
  }
  std::ofstream(store()) << "a file";
  const std::string said = once(spec());
  EXPECT_TRUE(said.starts_with("runs: ")) << said;
  EXPECT_NE(said.find("; not kept: cannot make the directory '"), std::string::npos) << said;
  fs::remove(store());
  CacheCheck check(cache_of_test(), identity(), spec());
  EXPECT_FALSE(check.begin([] { return true; }).hit);
  EXPECT_EQ(check.end("1", kGoesOn), "");
  EXPECT_TRUE(files("entries").empty());
}

// The least recently used entry is removed first.
TEST_F(ResultCacheTest, IsBounded) {
  ResultCache cache(store(), true, {.files = 8, .look_every_files = 1});
  const auto task = [](int i) { return identity(std::to_string(i)); };
  const auto age = [&](int hours) {
    for (const char* part : {"entries", "tasks"}) {
      for (const fs::path& path : files(part))
        fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(hours));
    }
  };
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(once(cache, spec(), std::to_string(i), [] {}, task(i)), "runs: no earlier success");
    age(1);
  }
  EXPECT_EQ(once(cache, spec(), "", [] {}, task(0)), "hit 0") << "used, and so the youngest";
  age(1);
  EXPECT_EQ(once(cache, spec(), "4", [] {}, task(4)), "runs: no earlier success");
  EXPECT_LE(files("entries").size() + files("tasks").size(), 8U);
  EXPECT_EQ(once(cache, spec(), "", [] {}, task(0)), "hit 0");
  EXPECT_EQ(once(cache, spec(), "", [] {}, task(4)), "hit 4");
  EXPECT_NE(once(cache, spec(), "1", [] {}, task(1)).substr(0, 4), "hit ");
  // The bound on bytes holds as well; and an unfinished file of a killed process is removed after a while.
  std::ofstream(store() + "/entries/x.new-1-1") << "part";
  fs::last_write_time(store() + "/entries/x.new-1-1", fs::file_time_type::clock::now() - std::chrono::hours(2));
  ResultCache small(store(), true, {.bytes = 10'000, .look_every_files = 1});
  for (int i = 0; i < 10; ++i) once(small, spec(), '"' + std::string(2000, 'x') + '"', [] {}, task(100 + i));
  std::uintmax_t bytes = 0;
  for (const char* part : {"entries", "tasks"}) {
    for (const fs::path& path : files(part)) bytes += fs::file_size(path);
  }
  EXPECT_LE(bytes, 10'000U);
  EXPECT_GT(bytes, 2'000U);
  EXPECT_FALSE(fs::exists(store() + "/entries/x.new-1-1"));
  EXPECT_EQ(once(small, spec(), "", [] {}, task(109)).substr(0, 4), "hit ");
}

// Many caches at once in one directory, while the bound removes entries: every hit is complete and right.
TEST_F(ResultCacheTest, ManyAtOnce) {
  sync::Atomic<int> wrong{0};
  std::vector<sync::Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ResultCache cache(store(), t != 0, {.files = 12, .look_every_files = 3});
      for (int i = 0; i < 60; ++i) {
        const int task = (i * 7 + t) % 8;
        const std::string result =
            '"' + std::string(static_cast<std::size_t>(100 + task), static_cast<char>('a' + task)) + '"';
        CacheCheck check(cache, identity(std::to_string(task)), spec());
        const CacheCheck::Verdict verdict = check.begin(kGoesOn);
        if (verdict.hit ? verdict.result != result : !check.end(result, kGoesOn).empty()) wrong.fetch_add(1);
      }
    });
  }
  for (sync::Thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace rota::worker
