// Tokens: who may use the HTTP interface, and for what (H-5).
//
//   rota_<id>_<64 hexadecimal digits>        the token, which its owner keeps; 256 random bits
//   <id> <role> <user> <expires> <sha256> [<sha256> <until>]
//                                            its line in the file; the file has no secret
//
// `expires` is in seconds since the epoch, or "-". After a rotation the hash of the former secret follows, which is
// valid until then. Of the roles read, submit and admin, each includes the ones before it. With the role submit a user
// controls the workflows of their own name; an admin controls everything. The role join allows a worker to join whose
// name matches the pattern in the place of the user; the role worker is the identity of the worker that is named there
// (worker_access.h). Both allow nothing else.
//
// The file belongs to the user who runs the host and has mode 0600; any other mode is refused, because a user who can
// write the file is an administrator. It is replaced as a whole (a new file is renamed), under a lock, so that the host
// and `rota token` may both change it. The host notices a changed file with the next request: a token that is revoked
// is refused from then on.
//
// Thread safety: all functions from any thread. File operations are short and block the thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sync.h"
#include "model/enum_names.h"
#include "rota/result.h"

namespace rota::host {

enum class Role : std::uint8_t { kRead, kSubmit, kAdmin, kWorker, kJoin };
ROTA_ENUM_NAMES(Role, kJoin, "read", "submit", "admin", "worker", "join")

using Sha256 = std::array<unsigned char, 32>;
[[nodiscard]] Sha256 sha256(std::string_view bytes);

struct Credential {
  std::string id{};
  Role role = Role::kRead;
  std::string user{};
  std::int64_t expires_s = 0;  // 0: never.
  Sha256 digest{};             // Of the whole token.
  Sha256 former{};             // Of the token before the last rotation.
  std::int64_t former_until_s = 0;
};

// All of the file's. NotFound; PermissionDenied for another owner or mode; ParseError with the line.
[[nodiscard]] Result<std::vector<Credential>> read_tokens(const std::string& path);
// Adds a token and returns it: this is the only time that it is seen. The file is made if it does not exist.
// AlreadyExists if there is one with this id; InvalidArgument for an id or user that is not a word of at most 32
// letters, digits, '-' and '.'.
[[nodiscard]] Result<std::string> create_token(const std::string& path, Credential credential);
// The same, in the place of one with this id if there is one, whose secret stays valid until `former_until_s`.
[[nodiscard]] Result<std::string> replace_token(const std::string& path, Credential credential,
                                                std::int64_t former_until_s);
// A new secret for the token with this id. NotFound.
[[nodiscard]] Result<std::string> rotate_token(const std::string& path, std::string_view id,
                                               std::int64_t former_until_s);
// NotFound.
[[nodiscard]] Result<void> revoke_token(const std::string& path, std::string_view id);

// The tokens as the host uses them.
class Tokens {
 public:
  explicit Tokens(std::string path) : path_(std::move(path)) {}

  // Reads the file if it has changed since. After an error every token is refused until the file is right again.
  Result<void> refresh();
  // Whose token it is. Unauthenticated: the sentence does not say whether the id exists. The comparison takes the same
  // time wherever the secrets differ.
  [[nodiscard]] Result<Credential> authenticate(std::string_view token, std::int64_t now_s);

 private:
  struct Version {
    std::int64_t changed_ns = -1;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    std::uint32_t mode = 0;
    std::uint32_t owner = 0;
    bool operator==(const Version&) const = default;
  };
  const std::string path_;
  sync::Mutex mutex_;
  std::optional<Version> version_ ROTA_GUARDED_BY(mutex_){};  // Of the file that was read last.
  Result<void> broken_ ROTA_GUARDED_BY(mutex_){};             // Why the file could not be read.
  std::vector<Credential> list_ ROTA_GUARDED_BY(mutex_){};
};

// Counts failed attempts per address within a second, so that a guesser fills no log. Bounded: beyond kMostAddresses
// all further ones share a count.
//
// Thread safety: all functions.
class FailedAttempts {
 public:
  static constexpr std::uint32_t kMostPerSecond = 10;
  static constexpr std::size_t kMostAddresses = 1024;

  // True if this failure is one too many.
  bool count(const std::string& address, std::int64_t now_s);
  [[nodiscard]] std::uint64_t total() const { return total_.load(); }

 private:
  sync::Mutex mutex_;
  std::int64_t second_ ROTA_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<std::string, std::uint32_t>> counts_ ROTA_GUARDED_BY(mutex_){};
  sync::Atomic<std::uint64_t> total_{0};
};

}  // namespace rota::host
