#include "host/http_tokens.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/json_text.h"
#include "base/os_error.h"
#include "rota/assert.h"

namespace rota::host {

namespace {

constexpr std::string_view kPrefix = "rota_";
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kMostTokenFile = std::size_t{1} << 20;
constexpr std::size_t kMostWord = 32;
constexpr std::string_view kHeader =
    "# Tokens of the HTTP interface: id, role, user, expires, sha256. Use `rota token`.\n";

// A descriptor that is closed at the end of its scope.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string hex(const unsigned char* bytes, std::size_t size) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    out.push_back(kDigits[bytes[i] >> 4]);
    out.push_back(kDigits[bytes[i] & 15]);
  }
  return out;
}

bool unhex(std::string_view text, Sha256& out) {
  if (text.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, out[i], 16);
    if (error != std::errc() || end != text.data() + 2 * i + 2) return false;
  }
  return true;
}

// No '_', which separates the parts of a token.
bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kMostWord && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// The name of a worker as escape_name() writes it; for a join token also with '*'.
bool is_name(std::string_view text, bool pattern) {
  return !text.empty() && text.size() <= 3 * 255 && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_word({&c, 1}) || c == '_' || c == '%' || (pattern && c == '*');
  });
}

bool is_user(std::string_view text, Role role) {
  return role == Role::kWorker || role == Role::kJoin ? is_name(text, role == Role::kJoin) : is_word(text);
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

Result<Credential> parse_line(std::string_view line) {
  const auto wrong = [](std::string_view what) { return Error{ErrorCode::kParseError, std::string(what)}; };
  const std::vector<std::string_view> words = words_of(line);
  if (words.size() != 5 && words.size() != 7) {
    return wrong(
        "a line has five words: id, role, user, expires, sha256; or seven: also the former sha256 and its end");
  }
  Credential credential;
  const std::optional<Role> role = model::parse_name<Role>(words[1]);
  if (!role) return wrong("the role is none of " + model::all_names<Role>());
  credential.role = *role;
  if (!is_word(words[0]) || !is_user(words[2], *role)) return wrong("the id or the user is not a word");
  credential.id = words[0];
  credential.user = words[2];
  if (words[3] != "-") {
    const auto [end, error] = std::from_chars(words[3].data(), words[3].data() + words[3].size(), credential.expires_s);
    if (error != std::errc() || end != words[3].data() + words[3].size() || credential.expires_s <= 0) {
      return wrong("the time of expiry is neither a number of seconds nor '-'");
    }
  }
  if (!unhex(words[4], credential.digest)) return wrong("the hash does not have 64 hexadecimal digits");
  if (words.size() == 7) {
    const auto [end, error] =
        std::from_chars(words[6].data(), words[6].data() + words[6].size(), credential.former_until_s);
    if (!unhex(words[5], credential.former) || error != std::errc() || end != words[6].data() + words[6].size()) {
      return wrong("the former secret is not a hash and a number of seconds");
    }
  }
  return credential;
}

std::string to_line(const Credential& credential) {
  std::string line = credential.id + " " + std::string(to_string(credential.role)) + " " + credential.user + " ";
  line += credential.expires_s == 0 ? "-" : std::to_string(credential.expires_s);
  line += " " + hex(credential.digest.data(), credential.digest.size());
  if (credential.former_until_s != 0) {
    line +=
        " " + hex(credential.former.data(), credential.former.size()) + " " + std::to_string(credential.former_until_s);
  }
  return line + "\n";
}

Result<std::vector<Credential>> parse_all(const std::string& path, std::string_view text) {
  std::vector<Credential> list;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    Result<Credential> credential = parse_line(line);
    if (!credential.ok()) return std::move(credential).take_error().in(path + ":" + std::to_string(number));
    list.push_back(std::move(*credential));
  }
  return list;
}

Result<std::string> read_file(int fd, const std::string& path) {
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + 4096);
    const ssize_t count = ::read(fd, text.data() + before, 4096);
    if (count < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    if (count < 0) return os_error(errno, "read '" + path + "'");
    text.resize(before + static_cast<std::size_t>(count));
    if (count == 0) return text;
    if (text.size() > kMostTokenFile) return Error{ErrorCode::kTooLarge, "'" + path + "' is too large"};
  }
}

// Replaces the file: either the old or the new content is there, whatever happens.
Result<void> replace_file(const std::string& path, const std::vector<Credential>& list) {
  std::string text(kHeader);
  for (const Credential& credential : list) text += to_line(credential);
  const std::string fresh = path + ".new";
  (void)::unlink(fresh.c_str());
  const OpenFile file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.ok()) return os_error(errno, "create '" + fresh + "'");
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::write(file.get(), rest.data(), rest.size());
    if (count < 0 && errno != EINTR) return os_error(errno, "write '" + fresh + "'");
    if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(file.get()) != 0) return os_error(errno, "sync '" + fresh + "'");
  if (::rename(fresh.c_str(), path.c_str()) != 0) return os_error(errno, "rename '" + fresh + "'");
  return {};
}

// Calls change(list) with what the file has, and writes the result, alone among all processes.
template <class Change>
Result<void> edit_file(const std::string& path, const Change& change) {
  const std::string lock = path + ".lock";
  const OpenFile guard(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!guard.ok()) return os_error(errno, "open '" + lock + "'");
  while (::flock(guard.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return os_error(errno, "lock '" + lock + "'");
  }
  Result<std::vector<Credential>> list = read_tokens(path);
  if (!list.ok() && list.code() != ErrorCode::kNotFound) return std::move(list).take_error();
  std::vector<Credential> content = list.ok() ? std::move(*list) : std::vector<Credential>();
  ROTA_TRY(change(content));
  return replace_file(path, content);
}

// Draws a secret, sets the hash, and returns the token.
Result<std::string> draw_secret(Credential& credential) {
  std::array<unsigned char, kSecretBytes> secret{};
  std::size_t filled = 0;
  while (filled < secret.size()) {
    const ssize_t count = ::getrandom(secret.data() + filled, secret.size() - filled, 0);
    if (count < 0 && errno != EINTR) return os_error(errno, "getrandom");
    if (count > 0) filled += static_cast<std::size_t>(count);
  }
  std::string token(kPrefix);
  token.append(credential.id).append("_").append(hex(secret.data(), secret.size()));
  credential.digest = sha256(token);
  return token;
}

Result<void> check_credential(const Credential& credential) {
  if (!is_word(credential.id) || !is_user(credential.user, credential.role)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the name of a token and its user are words of 1 to 32 letters, digits, '-' and '.'; found '" +
                     printable(credential.id) + "' and '" + printable(credential.user) + "'"};
  }
  return {};
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Sha256 digest{};
  unsigned size = 0;
  ROTA_ASSERT(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1 && size == digest.size(),
      "OpenSSL has no SHA-256");
  return digest;
}

Result<std::vector<Credential>> read_tokens(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.ok()) return os_error(errno, "open '" + path + "'");
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return os_error(errno, "stat '" + path + "'");
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return Error{ErrorCode::kPermissionDenied, "'" + path +
                                                   "' must be a file of the user who runs the host, with mode 0600: "
                                                   "others could give themselves tokens"};
  }
  ROTA_TRY_ASSIGN(const std::string text, read_file(file.get(), path));
  return parse_all(path, text);
}

Result<std::string> create_token(const std::string& path, Credential credential) {
  ROTA_TRY(check_credential(credential));
  ROTA_TRY_ASSIGN(std::string token, draw_secret(credential));
  ROTA_TRY(edit_file(path, [&](std::vector<Credential>& list) -> Result<void> {
    for (const Credential& known : list) {
      if (known.id == credential.id) {
        return Error{ErrorCode::kAlreadyExists,
                     "there is already a token '" + credential.id + "'; revoke it first, or choose another name"};
      }
    }
    list.push_back(credential);
    return {};
  }));
  return token;
}

Result<std::string> replace_token(const std::string& path, Credential credential, std::int64_t former_until_s) {
  ROTA_TRY(check_credential(credential));
  ROTA_TRY_ASSIGN(std::string token, draw_secret(credential));
  ROTA_TRY(edit_file(path, [&](std::vector<Credential>& list) -> Result<void> {
    const auto known =
        std::find_if(list.begin(), list.end(), [&](const Credential& each) { return each.id == credential.id; });
    if (known == list.end()) {
      list.push_back(credential);
      return {};
    }
    credential.former = known->digest;
    credential.former_until_s = former_until_s;
    *known = credential;
    return {};
  }));
  return token;
}

Result<std::string> rotate_token(const std::string& path, std::string_view id, std::int64_t former_until_s) {
  std::string token;
  ROTA_TRY(edit_file(path, [&](std::vector<Credential>& list) -> Result<void> {
    const auto known = std::find_if(list.begin(), list.end(), [&](const Credential& each) { return each.id == id; });
    if (known == list.end()) return Error{ErrorCode::kNotFound, "there is no token '" + printable(id) + "'"};
    known->former = known->digest;
    known->former_until_s = former_until_s;
    ROTA_TRY_ASSIGN(token, draw_secret(*known));
    return {};
  }));
  return token;
}

Result<void> revoke_token(const std::string& path, std::string_view id) {
  return edit_file(path, [&](std::vector<Credential>& list) -> Result<void> {
    if (std::erase_if(list, [&](const Credential& known) { return known.id == id; }) > 0) return {};
    return Error{ErrorCode::kNotFound, "there is no token '" + printable(id) + "'"};
  });
}

Result<void> Tokens::refresh() {
  struct stat status{};
  Version version;
  if (::stat(path_.c_str(), &status) == 0) {
    version = {status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec, status.st_ino, status.st_size,
               status.st_mode, status.st_uid};
  }
  const sync::MutexLock lock(mutex_);
  if (version == version_) return broken_;
  Result<std::vector<Credential>> list = read_tokens(path_);
  version_ = version;
  broken_ = {};
  list_.clear();
  if (list.ok()) {
    list_ = std::move(*list);
  } else {
    broken_ = std::move(list).take_error();
  }
  return broken_;
}

Result<Credential> Tokens::authenticate(std::string_view token, std::int64_t now_s) {
  const Error refused{ErrorCode::kUnauthenticated,
                      "the token is not valid: it is unknown, revoked or expired; `rota token` makes a new one"};
  // The hash is computed and compared whether or not the id is known.
  const Sha256 digest = sha256(token.substr(0, 256));
  std::string_view id = token;
  if (!id.starts_with(kPrefix)) return refused;
  id.remove_prefix(kPrefix.size());
  id = id.substr(0, id.find('_'));
  const sync::MutexLock lock(mutex_);
  const auto found = std::find_if(list_.begin(), list_.end(), [&](const Credential& known) { return known.id == id; });
  static const Credential kNoCredential{};
  const bool known = found != list_.end();
  const Credential& compared = known ? *found : kNoCredential;
  const bool equal = CRYPTO_memcmp(compared.digest.data(), digest.data(), digest.size()) == 0;
  const bool former = CRYPTO_memcmp(compared.former.data(), digest.data(), digest.size()) == 0;
  if (!known || !(equal || (former && compared.former_until_s > now_s)) ||
      (found->expires_s != 0 && found->expires_s <= now_s))
    return refused;
  return *found;
}

bool FailedAttempts::count(const std::string& address, std::int64_t now_s) {
  total_.fetch_add(1);
  const sync::MutexLock lock(mutex_);
  if (second_ != now_s) {
    second_ = now_s;
    counts_.clear();
  }
  auto found = std::find_if(counts_.begin(), counts_.end(), [&](const auto& pair) { return pair.first == address; });
  if (found == counts_.end()) {
    if (counts_.size() == kMostAddresses) {
      found = std::prev(counts_.end());
    } else {
      found = counts_.insert(counts_.end(), {address, 0});
    }
  }
  return ++found->second > kMostPerSecond;
}

}  // namespace rota::host
