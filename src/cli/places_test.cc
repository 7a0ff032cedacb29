// Finding runs by everything that a user may write for WHERE.
#include "cli/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace rota::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest() {
    std::string name = ::testing::TempDir() + "rota_places_XXXXXX";
    folder_ = fs::canonical(mkdtemp(name.data()));
  }
  ~PlacesTest() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text = "") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string state(const std::string& name, int age_s = 0) const {
    const std::string ledger = file(name + "/ledger.db", "SQLite format 3");
    fs::last_write_time(ledger, fs::file_time_type::clock::now() - std::chrono::seconds(age_s));
    return folder_ / name;
  }
  std::vector<std::string> found(const std::string& where) const {
    std::vector<std::string> folders;
    const Result<std::vector<Place>> places = find_places(where);
    if (!places.ok()) return {places.error().message};
    for (const Place& place : *places) folders.push_back(fs::path(place.folder).lexically_relative(folder_));
    return folders;
  }

  fs::path folder_;
};

// C-2: a workflow file, a state folder, a folder that contains .rota/, a ledger.
TEST_F(PlacesTest, AllTheNames) {
  const std::string workflow = file("w.yaml", "apiVersion: rota/v1\n");
  state(".rota/w.yaml", 100);
  state(".rota/other.yaml", 5);
  state("kept");
  const std::vector<std::string> w{".rota/w.yaml"};
  EXPECT_EQ(found(workflow), w);
  EXPECT_EQ(found(folder_ / ".rota/w.yaml"), w);
  EXPECT_EQ(found(folder_ / ".rota/w.yaml/"), w);
  EXPECT_EQ(found(folder_ / ".rota/w.yaml/ledger.db"), w);
  EXPECT_EQ(found(folder_), (std::vector<std::string>{".rota/other.yaml", ".rota/w.yaml"})) << "the latest first";
  EXPECT_EQ(found(folder_ / ".rota"), found(folder_));
  EXPECT_EQ(found(folder_ / ".rota/"), found(folder_));
  EXPECT_EQ(found(folder_ / "kept"), std::vector<std::string>{"kept"});
  EXPECT_EQ(found(folder_ / "other.yaml"), std::vector<std::string>{".rota/other.yaml"}) << "the file was removed";
  EXPECT_EQ(find_places(workflow)->front().name, "w.yaml");
  // A symbolic link is a workflow of its own, as with `rota run`: programs run, and the state is, where the link is.
  fs::create_directory(folder_ / "links");
  fs::create_symlink(workflow, folder_ / "links/w.yaml");
  EXPECT_THAT(found(folder_ / "links/w.yaml").front(), HasSubstr("has not been run"));
  state("links/.rota/w.yaml");
  EXPECT_EQ(found(folder_ / "links/w.yaml"), std::vector<std::string>{"links/.rota/w.yaml"});
  std::string note;
  EXPECT_EQ(find_place(folder_, &note)->name, "other.yaml");
  EXPECT_THAT(note, HasSubstr("using the latest of 2 runs here, that of other.yaml"));
}

TEST_F(PlacesTest, SaysWhatIsMissing) {
  EXPECT_THAT(found(folder_).front(), HasSubstr("there is no run in '"));
  EXPECT_THAT(found(file("w.yaml")).front(), HasSubstr("has not been run"));
  EXPECT_THAT(found(folder_ / "none.yaml").front(), HasSubstr("No such file or folder"));
  fs::create_directory(folder_ / ".rota");
  EXPECT_THAT(found(folder_).front(), HasSubstr("there is no run in '"));
}

// A file that has the name of a task by chance is not a place.
TEST_F(PlacesTest, PlacesAndTasks) {
  state(".rota/w.yaml");
  state("kept");
  EXPECT_TRUE(is_place(folder_ / "kept"));
  EXPECT_TRUE(is_place("nightly.yaml"));
  EXPECT_TRUE(is_place("./nightly"));
  EXPECT_FALSE(is_place(""));
  EXPECT_FALSE(is_place("train[3]"));
  EXPECT_FALSE(is_place("nightly/train[3]"));
  EXPECT_FALSE(is_place("wf-1.3"));
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  file("train", "a task wrote this");
  fs::create_directory(folder_ / "test");
  EXPECT_FALSE(is_place("train"));
  EXPECT_FALSE(is_place("test"));
  EXPECT_TRUE(is_place("kept"));
  std::string where = "train";
  std::vector<std::string> tasks{"test"};
  separate_where(where, tasks);
  EXPECT_EQ(where, "");
  EXPECT_EQ(tasks, (std::vector<std::string>{"train", "test"}));
  where = "w.yaml";
  separate_where(where, tasks);
  EXPECT_EQ(where, "w.yaml");
  fs::current_path(before);
}

}  // namespace
}  // namespace rota::cli
