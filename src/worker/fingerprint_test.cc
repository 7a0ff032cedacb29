// Which tasks count as unchanged, and how differences are described.
#include "worker/fingerprint.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace rota::worker {
namespace {

namespace fs = std::filesystem;

const std::function<bool()> kGoesOn = [] { return false; };

class Fingerprint : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rota-fingerprint-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path, std::ios::binary) << text;
  }
  [[nodiscard]] std::string found(const std::vector<std::string>& patterns,
                                  const std::vector<std::string>& but = {}) const {
    const Result<FileHashes> files = hash_files({folder_, kGoesOn}, patterns, but);
    if (!files.ok()) return files.error().message;
    std::string text;
    for (const auto& [path, hash] : *files) text += (text.empty() ? "" : " ") + path;
    return text;
  }
  [[nodiscard]] FileHash file_hash(const std::string& path) const {
    return hash_file({folder_, kGoesOn}, path).value();
  }
  [[nodiscard]] Hash128 content(const std::string& path) const { return file_hash(path).content; }

  std::string folder_;
};

// Contract: C-1. Patterns name files; a directory stands for everything in it.
TEST_F(Fingerprint, Patterns) {
  write("a.csv", "1");
  write("b.csv", "2");
  write("b.txt", "3");
  write(".hidden.csv", "4");
  write("data/x/1.csv", "5");
  write("data/x/y/2.csv", "6");
  write("data/.secret/3.csv", "7");
  write(".rota/w.yaml/ledger.db", "8");
  write("odd [name]/f", "9");
  fs::create_directories(folder_ + "/empty");
  EXPECT_EQ(found({"*.csv"}), "a.csv b.csv");
  EXPECT_EQ(found({"b.*", "a.csv", "*.csv"}), "a.csv b.csv b.txt");
  EXPECT_EQ(found({"[b-z].???"}), "b.csv b.txt");
  EXPECT_EQ(found({"data"}), "data/.secret/3.csv data/x/1.csv data/x/y/2.csv");
  EXPECT_EQ(found({"./data//x/"}), "data/x/1.csv data/x/y/2.csv");
  EXPECT_EQ(found({"data/*/*.csv"}), "data/x/1.csv");
  EXPECT_EQ(found({"**/*.csv"}), "a.csv b.csv data/x/1.csv data/x/y/2.csv");
  EXPECT_EQ(found({"data/**"}), "data/.secret/3.csv data/x/1.csv data/x/y/2.csv");
  EXPECT_EQ(found({"empty"}), "empty/");
  EXPECT_EQ(found({"nothing", "no/*/where", "a.csv/inside"}), "");
  EXPECT_EQ(found({"odd \\[name]/*"}), "odd [name]/f");
  EXPECT_EQ(found({folder_ + "/a.csv"}), folder_ + "/a.csv");
  // The state folder of Rota is not an input of a task.
  EXPECT_EQ(found({"."}).find(".rota"), std::string::npos);
  EXPECT_NE(found({"."}).find(".hidden.csv"), std::string::npos);
  EXPECT_EQ(found({"*.csv"}, {"b*"}), "a.csv");
}

TEST_F(Fingerprint, LinksPipesAndSecrets) {
  write("real/file", "1");
  fs::create_symlink("real/file", folder_ + "/link");
  fs::create_directory_symlink("real", folder_ + "/inside");
  fs::create_directory_symlink("..", folder_ + "/real/loop");
  fs::create_symlink("nowhere", folder_ + "/dangling");
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(found({"real"}), "real/file real/loop");
  EXPECT_EQ(found({"inside"}), "inside/file inside/loop");
  EXPECT_EQ(found({"pipe", "dangling"}), "dangling pipe");
  EXPECT_EQ(content("link"), content("real/file"));
  fs::remove(folder_ + "/dangling");
  const Hash128 before = content("real/loop");
  fs::remove(folder_ + "/real/loop");
  fs::create_directory_symlink("../..", folder_ + "/real/loop");
  EXPECT_NE(content("real/loop"), before);
  if (::geteuid() != 0) {
    fs::permissions(folder_ + "/real/file", fs::perms::none);
    EXPECT_EQ(found({"real/file"}), "'real/file' cannot be read: Permission denied");
  }
}

TEST_F(Fingerprint, ContentCounts) {
  write("small", "");
  const Hash128 empty = content("small");
  write("small", "x");
  EXPECT_NE(content("small"), empty);
  const std::string large(1 << 20, 'x');
  write("large", large);
  const Hash128 before = content("large");
  write("large", large.substr(1) + "y");
  EXPECT_NE(content("large"), before);
  write("large", large);
  EXPECT_EQ(content("large"), before);
  EXPECT_EQ(hash_file({folder_, kGoesOn}, "gone").code(), ErrorCode::kNotFound);
}

// Contract: C-1. A file with the same bytes that may be executed now, or no longer, has changed.
TEST_F(Fingerprint, TheRightToBeExecutedCounts) {
  write("f", "x");
  const Hash128 plain = content("f");
  HashMemo memo(-std::chrono::hours(1));
  const FileAccess remembered{folder_, kGoesOn, &memo};
  EXPECT_EQ(hash_file(remembered, "f").value().content, plain);
  fs::permissions(folder_ + "/f", fs::perms::owner_exec, fs::perm_options::add);
  EXPECT_NE(content("f"), plain);
  fs::permissions(folder_ + "/f", fs::perms::group_write | fs::perms::owner_exec, fs::perm_options::remove);
  EXPECT_EQ(content("f"), plain) << "other rights do not count";
}

// Contract: C-1. The stamp tells a file that was written or replaced from one that was not, also by way of a link.
TEST_F(Fingerprint, Stamps) {
  write("f", "x");
  fs::create_symlink("f", folder_ + "/link");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(folder_ + "/f", old);
  const FileHash before = file_hash("f");
  const FileHash linked = file_hash("link");
  EXPECT_EQ(file_hash("f").stamp, before.stamp);
  EXPECT_EQ(file_hash("link").stamp, linked.stamp);
  write("g", "x");
  fs::last_write_time(folder_ + "/g", old);
  fs::rename(folder_ + "/g", folder_ + "/f");
  EXPECT_EQ(file_hash("f").content, before.content);
  EXPECT_NE(file_hash("f").stamp, before.stamp) << "another file";
  EXPECT_NE(file_hash("link").stamp, linked.stamp);
  const FileHash replaced = file_hash("f");
  write("f", "x");
  EXPECT_NE(file_hash("f").stamp, replaced.stamp) << "written";
  const FileHash own = file_hash("f");
  const FileHash first = file_hash("link");
  fs::create_symlink(folder_ + "/f", folder_ + "/other");
  fs::rename(folder_ + "/other", folder_ + "/link");
  EXPECT_EQ(file_hash("f").stamp, own.stamp);
  EXPECT_EQ(file_hash("link").content, first.content);
  EXPECT_NE(file_hash("link").stamp, first.stamp) << "another link to the same file";
  EXPECT_EQ(touched({{Part::Kind::kFile, "f", own.content, replaced.stamp}, {Part::Kind::kFile, "g", {}, {}}},
                    {{Part::Kind::kFile, "f", own.content, own.stamp}, {Part::Kind::kFile, "g", {}, {}}}),
            "the file f was written or replaced");
}

TEST_F(Fingerprint, IsBoundedAndCanBeStopped) {
  for (int i = 0; i < 20; ++i) write("many/" + std::to_string(i), "");
  const Result<FileHashes> files = hash_files({folder_, kGoesOn}, {"many"}, {}, 19);
  ASSERT_FALSE(files.ok());
  EXPECT_EQ(files.error().message, "the patterns match more than 19 files; name fewer files, or pack them into one");
  EXPECT_TRUE(hash_files({folder_, kGoesOn}, {"many"}, {}, 20).ok());
  int asked = 0;
  const std::function<bool()> soon = [&] { return ++asked > 5; };
  EXPECT_EQ(hash_files({folder_, soon}, {"many"}, {}).code(), ErrorCode::kCancelled);
}

// Contract: C-1. A remembered hash is not used for a file that has changed since; a file that was just written is read.
TEST_F(Fingerprint, Memo) {
  write("f", "one");
  HashMemo careful;
  const FileAccess now{folder_, kGoesOn, &careful};
  const Hash128 one = hash_file(now, "f").value().content;
  EXPECT_EQ(hash_file(now, "f").value().content, one);
  EXPECT_EQ(careful.found(), 0U) << "too young";
  write("f", "two");
  EXPECT_NE(hash_file(now, "f").value().content, one) << "of the same size, and perhaps within the same time";

  HashMemo hasty(-std::chrono::hours(1));
  const FileAccess later{folder_, kGoesOn, &hasty};
  const Hash128 two = hash_file(later, "f").value().content;
  EXPECT_EQ(hash_file(later, "f").value().content, two);
  EXPECT_EQ(hasty.found(), 1U);
  write("f", "three");
  EXPECT_NE(hash_file(later, "f").value().content, two);
  EXPECT_EQ(hasty.found(), 1U);
  fs::remove(folder_ + "/f");
  EXPECT_EQ(hash_file(later, "f").code(), ErrorCode::kNotFound);
}

model::TaskSpec handler_spec(const std::string& type) {
  model::TaskSpec spec;
  spec.type = type;
  return spec;
}

// Contract: C-1. The text names the parts that changed, and how.
TEST_F(Fingerprint, Differences) {
  model::TaskSpec before;
  before.inputs = R"({"a":1})";
  model::ProgramSpec& program = before.program.emplace();
  program.shell = "x";
  program.environment = {{"A", "1"}, {"ROTA_REF_1", "v"}};
  program.directory = "/d";
  before.cache.emplace().files = {"*.c"};
  const Parts parts = parts_of(before);
  const auto against = [&](const std::function<void(model::TaskSpec&)>& change) {
    model::TaskSpec after = before;
    change(after);
    return differences(parts, parts_of(after));
  };
  EXPECT_EQ(against([](model::TaskSpec& spec) {
              spec.inputs = R"({"a": 1})";
              std::swap(spec.program->environment[0], spec.program->environment[1]);
            }),
            "");
  EXPECT_EQ(against([](model::TaskSpec& spec) { spec.program->shell = "y"; }), "the program changed");
  EXPECT_EQ(against([](model::TaskSpec& spec) {
              spec.program->shell.clear();
              spec.program->arguments = {"x"};
              spec.inputs = R"({"a":2})";
            }),
            "the program changed and the inputs changed");
  EXPECT_EQ(against([](model::TaskSpec& spec) { spec.program->environment = {{"B", "1"}, {"ROTA_REF_1", "w"}}; }),
            "the variable A is gone, the variable B is new and the value of reference 1 in run changed");
  EXPECT_EQ(against([](model::TaskSpec& spec) {
              spec.program->directory = "/e";
              spec.cache->files.clear();
            }),
            "the directory changed and cache.files changed");
  EXPECT_NE(differences(parts_of(handler_spec("h")), parts_of(handler_spec("g"))), "");
  Parts more = parts;
  Parts fewer = parts;
  for (int i = 0; i < 6; ++i) more.push_back({Part::Kind::kFile, "f" + std::to_string(i), {}});
  fewer.push_back({Part::Kind::kFile, "f0", {1, 1}});
  EXPECT_EQ(differences(fewer, more), "the file f0 changed, the file f1 is new, the file f2 is new and 3 more");
  EXPECT_EQ(differences(more, parts), "the file f0 is gone, the file f1 is gone, the file f2 is gone and 3 more");
  EXPECT_EQ(kinds_of(parts), "program, inputs and environment");
  EXPECT_EQ(kinds_of(more), "program, inputs, environment and 6 files");
  EXPECT_EQ(kinds_of(fewer), "program, inputs, environment and 1 file");
  EXPECT_EQ(kinds_of(parts_of(handler_spec("h"))), "handler and inputs");
}

}  // namespace
}  // namespace rota::worker
