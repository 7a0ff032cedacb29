// Contract: U-6. Contents of files over HTTP: ranges, uploads that are resumed, and what is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "host/file_uploads.h"
#include "host/http_testing.h"
#include "net/file_store.h"
#include "net/http_client.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

constexpr std::size_t kPiece = kMostPieceBytes;

std::string sha256_of(std::string_view bytes) {
  net::ContentHash hash;
  hash.add(bytes);
  return hash.finish();
}

std::string content_of(std::size_t bytes) {
  std::string content(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 31 + i / 256);
  return content;
}

struct FilesWorld : HttpWorld {
  explicit FilesWorld(std::uint64_t most = 0) {
    files = store.path;
    files_bytes = most;
  }
  void play(const std::function<void(FilesWorld&)>& body) {
    run([&](HttpWorld&) {
      worker = create("w.1", Role::kWorker, "w");
      body(*this);
    });
  }
  Reply put(const std::string& sha256, std::size_t bytes, std::size_t offset, const std::string& piece) {
    return ask("PUT", "/v1/files/" + sha256 + "?bytes=" + std::to_string(bytes) + "&offset=" + std::to_string(offset),
               worker, "Content-Type: application/octet-stream\r\n", piece);
  }
  Reply put_all(const std::string& content) {
    Reply reply = put(sha256_of(content), content.size(), 0, "");
    for (std::size_t at = 0; at < content.size() && reply.status < 300; at += kPiece) {
      reply = put(sha256_of(content), content.size(), at, content.substr(at, kPiece));
    }
    return reply;
  }
  Reply get_range(const std::string& sha256, const std::string& range) {
    return ask("GET", "/v1/files/" + sha256, worker, "Range: " + range + "\r\n");
  }
  StateFolder store;
  std::string worker;
};

TEST(HttpFiles, UploadAndRanges) {
  FilesWorld world;
  world.play([](FilesWorld& w) {
    const std::string content = content_of(2 * kPiece + 100);
    const std::string sha256 = sha256_of(content);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256, w.worker).status, 404);
    const Reply done = w.put_all(content);
    EXPECT_EQ(done.status, 201) << done.body;
    EXPECT_EQ(done.json()["offset"], content.size());
    for (const std::string& token : {w.worker, w.reader, w.admin}) {
      const Reply whole = w.ask("GET", "/v1/files/" + sha256, token);
      EXPECT_EQ(whole.status, 200);
      EXPECT_EQ(whole.body, content);
      EXPECT_EQ(whole.fields.at("content-length"), std::to_string(content.size()));
      EXPECT_EQ(whole.fields.at("etag"), "\"" + sha256 + "\"");
    }
    const Reply head = w.ask("HEAD", "/v1/files/" + sha256, w.worker);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.fields.at("content-length"), std::to_string(content.size()));
    EXPECT_EQ(head.fields.at("accept-ranges"), "bytes");
    EXPECT_TRUE(head.body.empty());
    const auto range = [&](const std::string& text, std::size_t first, std::size_t count) {
      const Reply part = w.get_range(sha256, text);
      EXPECT_EQ(part.status, 206) << text;
      EXPECT_EQ(part.body, content.substr(first, count)) << text;
      EXPECT_EQ(part.fields.at("content-range"), "bytes " + std::to_string(first) + "-" +
                                                     std::to_string(first + part.body.size() - 1) + "/" +
                                                     std::to_string(content.size()));
    };
    range("bytes=0-0", 0, 1);
    range("bytes=5-9", 5, 5);
    range("bytes=" + std::to_string(kPiece - 1) + "-" + std::to_string(kPiece + 1), kPiece - 1, 3);
    range("bytes=" + std::to_string(content.size() - 1) + "-", content.size() - 1, 1);
    range("bytes=-7", content.size() - 7, 7);
    range("bytes=5-99999999", 5, content.size());
    const Reply beyond = w.get_range(sha256, "bytes=" + std::to_string(content.size()) + "-");
    EXPECT_EQ(beyond.status, 416);
    EXPECT_EQ(beyond.fields.at("content-range"), "bytes */" + std::to_string(content.size()));
    EXPECT_EQ(beyond.fields.at("content-type"), "application/problem+json");
    for (const char* ignored : {"bytes=5-1", "bytes=1-2,4-5", "lines=1-2", "bytes=x-y", "bytes=-"}) {
      EXPECT_EQ(w.get_range(sha256, ignored).status, 200) << ignored;
    }
    // It is there: nothing is sent again.
    const Reply again = w.put(sha256, content.size(), 0, "");
    EXPECT_EQ(again.status, 201);
    EXPECT_EQ(again.json()["offset"], content.size());
    // An empty content is complete without a piece.
    EXPECT_EQ(w.put(sha256_of(""), 0, 0, "").status, 201);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256_of(""), w.worker).body, "");
  });
}

TEST(HttpFiles, AnUploadIsResumedWhereItIs) {
  const StateFolder kept;
  const std::string content = content_of(3 * kPiece);
  const std::string sha256 = sha256_of(content);
  auto world = std::make_unique<FilesWorld>();
  world->files = kept.path;
  world->play([&](FilesWorld& w) {
    EXPECT_EQ(w.put(sha256, content.size(), 0, content.substr(0, kPiece)).json()["offset"], kPiece);
    const Reply wrong = w.put(sha256, content.size(), 0, content.substr(0, kPiece));
    EXPECT_EQ(wrong.status, 409);
    EXPECT_EQ(wrong.json()["details"]["offset"], std::to_string(kPiece));
    EXPECT_EQ(w.put(sha256, content.size(), 2 * kPiece, content.substr(2 * kPiece)).status, 409);
    EXPECT_EQ(w.put(sha256, content.size(), 0, "").json()["offset"], kPiece) << "where the next piece begins";
    EXPECT_EQ(w.get_range(sha256, "bytes=0-1").status, 404) << "it is not complete";
    EXPECT_EQ(w.put(sha256, content.size(), kPiece, content.substr(kPiece, 10)).json()["offset"], kPiece + 10);
  });
  // The host is started again; as long as its first process lived, the partial content was locked.
  world = std::make_unique<FilesWorld>();
  world->files = kept.path;
  world->play([&](FilesWorld& w) {
    EXPECT_EQ(w.put(sha256, content.size(), 0, "").json()["offset"], kPiece + 10);
    for (std::size_t at = kPiece + 10; at < content.size(); at += kPiece) {
      EXPECT_LT(w.put(sha256, content.size(), at, content.substr(at, kPiece)).status, 300);
    }
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256, w.worker).body, content);
  });
}

TEST(HttpFiles, WhatIsRefused) {
  FilesWorld world(1000);
  world.play([](FilesWorld& w) {
    const std::string sha256 = sha256_of("right");
    const Reply mismatch = w.put(sha256, 5, 0, "wrong");
    EXPECT_EQ(mismatch.status, 422) << mismatch.body;
    EXPECT_EQ(w.put(sha256, 5, 0, "").json()["offset"], 0) << "from the beginning";
    EXPECT_EQ(w.put(sha256, 5, 0, "right and more").status, 413);
    const Reply full = w.put(sha256_of(content_of(1001)), 1001, 0, "");
    EXPECT_EQ(full.status, 507);
    EXPECT_NE(full.json()["detail"].get<std::string>().find("is full: it may have 1kB"), std::string::npos);
    EXPECT_EQ(full.json()["code"], "NoSpace");
    EXPECT_EQ(w.put(sha256, 5, 0, std::string(kPiece + 1, 'x')).status, 413);
    EXPECT_EQ(w.put("../../tokens", 5, 0, "").status, 404);
    EXPECT_EQ(w.put(std::string(64, 'A'), 5, 0, "").status, 400);
    EXPECT_EQ(w.ask("PUT", "/v1/files/" + sha256, w.worker, "Content-Type: application/octet-stream\r\n").status, 400)
        << "how large?";
    for (const std::string& token : {w.reader, w.ann, w.admin}) {
      EXPECT_EQ(
          w.ask("PUT", "/v1/files/" + sha256 + "?bytes=5", token, "Content-Type: application/octet-stream\r\n").status,
          403)
          << "only workers store files";
    }
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256, "").status, 401);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256, w.create("j", Role::kJoin, "*")).status, 403);
  });
}

// A content that was damaged at the host is found when a worker asks, and is removed, so that it can be stored again.
TEST(HttpFiles, DamageAtTheHost) {
  FilesWorld world;
  world.play([](FilesWorld& w) {
    const std::string content = content_of(1000);
    const std::string sha256 = sha256_of(content);
    ASSERT_EQ(w.put_all(content).status, 201);
    EXPECT_EQ(w.ask("POST", "/v1/files/" + sha256 + "/check", w.worker).status, 200);
    const std::string path = w.store.path + "/sha256/" + sha256.substr(0, 2) + "/" + sha256.substr(2);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).put('!');
    const Reply damaged = w.ask("POST", "/v1/files/" + sha256 + "/check", w.worker);
    EXPECT_EQ(damaged.status, 500);
    EXPECT_EQ(damaged.json()["code"], "Corrupt");
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256, w.worker).status, 404);
    EXPECT_EQ(w.put_all(content).status, 201);
  });
}

// A full store makes room by itself: contents that no workflow refers to go, if they were not used for an hour; those
// of a workflow that the host knows stay.
TEST(HttpFiles, AFullStoreRemovesWhatNobodyRefersTo) {
  FilesWorld world(1000);
  world.play([](FilesWorld& w) {
    const std::string kept = content_of(400);
    const std::string unknown = content_of(500);
    ASSERT_EQ(w.put_all(kept).status, 201);
    ASSERT_EQ(w.put_all(unknown).status, 201);
    ASSERT_EQ(w.submit(w.ann, "",
                       "apiVersion: rota/v1\nspec:\n  stages:\n    - {name: a, run: 'true', outputs: x}\n"
                       "    - {name: b, run: 'true', fetch: a}\n")
                  .status,
              201);
    const Assign first = w.puppet->next_assign();
    ASSERT_TRUE(first.spec.files.has_value());
    model::AttemptOutcome outcome;
    outcome.end = AttemptEnd::kSucceeded;
    outcome.outputs = {{"x", sha256_of(kept), 400, false}};
    w.puppet->report(first, model::Ended{outcome});
    // The next stage gets the file.
    const Assign second = w.puppet->next_assign();
    EXPECT_EQ(second.files, outcome.outputs);
    ASSERT_TRUE(w.running->host.follower().wait_for(w.running->host.durable_index(), 10s).ok());
    const Reply result = w.get("/v1/tasks/" + first.id.task.to_string() + "/result");
    EXPECT_EQ(result.json()["outputs"][0]["sha256"], sha256_of(kept)) << result.body;
    const std::string wanted = content_of(600);
    EXPECT_EQ(w.put_all(wanted).status, 507) << "both were used a moment ago";
    for (const std::string& content : {kept, unknown}) {
      const std::string sha256 = sha256_of(content);
      const std::string path = w.store.path + "/sha256/" + sha256.substr(0, 2) + "/" + sha256.substr(2);
      const timespec old[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
    }
    EXPECT_EQ(w.put_all(wanted).status, 201);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256_of(kept), w.worker).status, 200);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256_of(unknown), w.worker).status, 404);
  });
}

// A worker that dies during an upload leaves a part of it and a reservation for the rest; neither keeps others out. A
// request without a piece only asks, and reserves nothing.
TEST(HttpFiles, ADeadUploadKeepsNobodyOut) {
  FilesWorld world(1000);
  world.play([](FilesWorld& w) {
    const std::string dead = content_of(800);
    const std::string next = content_of(700);
    EXPECT_EQ(w.put(sha256_of(content_of(900)), 900, 0, "").status, 200) << "a question";
    EXPECT_EQ(w.put(sha256_of(dead), dead.size(), 0, dead.substr(0, 200)).status, 200);
    EXPECT_EQ(w.put(sha256_of(next), next.size(), 0, next).status, 507) << "it may continue at any moment";
    ASSERT_TRUE(fiber::sleep_for(FileUploads::kGivenUp + 1s).ok());
    EXPECT_EQ(w.put(sha256_of(next), next.size(), 0, next).status, 201);
    EXPECT_EQ(w.put(sha256_of(dead), dead.size(), 0, "").status, 507) << "now there is no room for the rest";
  });
}

// A task that stores a content which a forgotten workflow has left there relies on it, like on one that it has sent.
TEST(HttpFiles, AContentThatIsStoredAgainIsUsedNow) {
  FilesWorld world(1000);
  world.play([](FilesWorld& w) {
    const std::string again = content_of(300);
    const std::string unused = content_of(400);
    for (const std::string& content : {again, unused}) {
      ASSERT_EQ(w.put_all(content).status, 201);
      const std::string sha256 = sha256_of(content);
      const std::string path = w.store.path + "/sha256/" + sha256.substr(0, 2) + "/" + sha256.substr(2);
      const timespec old[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
    }
    ASSERT_EQ(w.put_all(again).status, 201);
    ASSERT_EQ(w.put_all(content_of(600)).status, 201);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256_of(again), w.worker).status, 200);
    EXPECT_EQ(w.ask("GET", "/v1/files/" + sha256_of(unused), w.worker).status, 404);
  });
}

}  // namespace
}  // namespace rota::host
