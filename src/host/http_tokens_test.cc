// Tokens in their file, and which addresses a host listens on.
#include "host/http_tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>

#include "host/http_door.h"
#include "host/http_testing.h"

namespace rota::host {
namespace {

using testing_support::StateFolder;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Contract: H-5. A token is accepted until it is revoked or over; nothing else is; the file has no secret.
TEST(HttpTokens, LifeOfAToken) {
  const StateFolder folder;
  const std::string path = folder.path + "/tokens";
  Tokens tokens(path);
  EXPECT_EQ(tokens.refresh().code(), ErrorCode::kNotFound);
  EXPECT_EQ(tokens.authenticate("rota_ann_00", 0).code(), ErrorCode::kUnauthenticated);

  const std::string ann =
      create_token(path, {.id = "ann", .role = Role::kSubmit, .user = "ann.b", .expires_s = 1000}).value();
  const std::string eve = create_token(path, {.id = "eve", .role = Role::kRead, .user = "eve"}).value();
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(read(path).find(ann.substr(9)), std::string::npos) << "the secret is in the file";
  EXPECT_EQ(ann.size(), std::string("rota_ann_").size() + 64);
  EXPECT_NE(ann.substr(9), eve.substr(9));

  ASSERT_TRUE(tokens.refresh().ok());
  const Credential known = tokens.authenticate(ann, 999).value();
  EXPECT_EQ(known.user, "ann.b");
  EXPECT_EQ(known.role, Role::kSubmit);
  EXPECT_FALSE(tokens.authenticate(ann, 1000).ok()) << "it is over";
  EXPECT_TRUE(tokens.authenticate(eve, 1'000'000).ok());
  // Every change of one character, a part, an extension, the secret of another.
  for (std::size_t i = 0; i < eve.size(); ++i) {
    std::string other = eve;
    other[i] = other[i] == '1' ? '2' : '1';
    EXPECT_FALSE(tokens.authenticate(other, 0).ok()) << i;
    EXPECT_FALSE(tokens.authenticate(eve.substr(0, i), 0).ok()) << i;
  }
  EXPECT_FALSE(tokens.authenticate(eve + "0", 0).ok());
  EXPECT_FALSE(tokens.authenticate(eve + std::string(1000, '0'), 0).ok());
  EXPECT_FALSE(tokens.authenticate("rota_eve_" + ann.substr(9), 0).ok());
  EXPECT_FALSE(tokens.authenticate("rota_eve_" + std::string(64, '0'), 0).ok());

  EXPECT_EQ(create_token(path, {.id = "eve", .user = "x"}).code(), ErrorCode::kAlreadyExists);
  for (const char* bad : {"", "a b", "a_b", "a\nb", "0123456789012345678901234567890123"}) {
    EXPECT_EQ(create_token(path, {.id = bad, .user = "x"}).code(), ErrorCode::kInvalidArgument) << bad;
    EXPECT_EQ(create_token(path, {.id = "x", .user = bad}).code(), ErrorCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(revoke_token(path, "nobody").code(), ErrorCode::kNotFound);
  ASSERT_TRUE(revoke_token(path, "eve").ok());
  ASSERT_TRUE(tokens.refresh().ok());
  EXPECT_FALSE(tokens.authenticate(eve, 0).ok());
  EXPECT_TRUE(tokens.authenticate(ann, 0).ok());
}

// Contract: H-5. A user who could write the file could make a token of any role; then every token is refused.
TEST(HttpTokens, AFileThatIsNotSafe) {
  const StateFolder folder;
  const std::string path = folder.path + "/tokens";
  const std::string ann = create_token(path, {.id = "ann", .role = Role::kAdmin, .user = "ann"}).value();
  Tokens tokens(path);
  ASSERT_TRUE(tokens.refresh().ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(tokens.refresh().code(), ErrorCode::kPermissionDenied);
  EXPECT_FALSE(tokens.authenticate(ann, 0).ok());
  EXPECT_EQ(tokens.refresh().code(), ErrorCode::kPermissionDenied) << "the error is not forgotten";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(tokens.refresh().ok());
  EXPECT_TRUE(tokens.authenticate(ann, 0).ok());

  std::filesystem::rename(path, path + ".real");
  std::filesystem::create_symlink(path + ".real", path);
  EXPECT_FALSE(read_tokens(path).ok());
  std::filesystem::remove(path);

  const std::string hash(64, 'a');
  for (const std::string& line : {std::string("ann admin ann -"), "ann king ann - " + hash, "a_b admin ann - " + hash,
                                  "ann admin ann soon " + hash, "ann admin ann -5 " + hash,
                                  "ann admin ann - " + hash.substr(1) + "g", "ann admin ann - " + hash + " more"}) {
    std::filesystem::remove(path);
    {
      std::ofstream(path) << "# a comment\n" << line << "\n";
    }
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    const auto list = read_tokens(path);
    ASSERT_EQ(list.code(), ErrorCode::kParseError) << line;
    EXPECT_NE(list.error().message.find("tokens:2: "), std::string::npos) << list.error().message;
  }
}

TEST(HttpTokens, FailedAttempts) {
  FailedAttempts failures;
  for (std::uint32_t i = 0; i < FailedAttempts::kMostPerSecond; ++i) EXPECT_FALSE(failures.count("10.0.0.1", 5));
  EXPECT_TRUE(failures.count("10.0.0.1", 5));
  EXPECT_FALSE(failures.count("10.0.0.2", 5));
  EXPECT_FALSE(failures.count("10.0.0.1", 6)) << "the next second";
  for (std::size_t i = 0; i < 3 * FailedAttempts::kMostAddresses; ++i) (void)failures.count("a" + std::to_string(i), 7);
  EXPECT_TRUE(failures.count("one more", 7)) << "beyond the bound, all others share a count";
  EXPECT_EQ(failures.total(), 14 + 3 * FailedAttempts::kMostAddresses);
}

// Contract: H-5.
TEST(HttpDoorAddress, NothingBeyondLoopbackWithoutTls) {
  const auto code = [](const std::string& address, const std::string& certificate = "", const std::string& key = "") {
    return check_http_address({.address = address, .certificate = certificate, .key = key}).code();
  };
  for (const char* address : {"127.0.0.1:70", "127.3.2.1:0", "[::1]:70", "localhost:70"}) {
    EXPECT_EQ(code(address), ErrorCode::kOk) << address;
  }
  for (const char* address : {"0.0.0.0:70", "[::]:70", "10.0.0.7:70", "host.example:70", "127.0.0.1.example:70",
                              "[::ffff:127.0.0.1]:70", "[::ffff:10.0.0.7]:70"}) {
    EXPECT_EQ(code(address), ErrorCode::kFailedPrecondition) << address;
    EXPECT_EQ(code(address, "c.pem", "k.pem"), ErrorCode::kOk) << address;
  }
  EXPECT_EQ(code("127.0.0.1:70", "c.pem"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("127.0.0.1:70", "", "k.pem"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("127.0.0.1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("unix:/tmp/x"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_http_address({.address = "localhost:70"})->host, "127.0.0.1") << "the name might mean something else";
}

}  // namespace
}  // namespace rota::host
