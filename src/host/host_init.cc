#include "host/host_init.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/os_error.h"
#include "host/http_door.h"
#include "host/http_tokens.h"
#include "net/certificates.h"
#include "net/tls.h"

namespace rota::host {

namespace {

constexpr std::chrono::hours kCaValid{24 * 3650};
constexpr std::chrono::hours kHostValid{24 * 90};
constexpr std::int64_t kRenewBefore = std::int64_t{30} * 86400;

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return os_error(errno, "open '" + path + "'");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<void> issue(const HostFiles& files, const net::CertificateAndKey& ca, const std::vector<std::string>& names,
                   std::int64_t now_s) {
  ROTA_TRY_ASSIGN(const net::CertificateAndKey host,
                  net::issue_certificate(ca, {.names = names, .now_s = now_s, .valid = kHostValid}));
  // Clients that know the CA by its hash need it in the chain. The key comes first: a host that reads the files in
  // between refuses the pair and keeps what it has.
  ROTA_TRY(write_private(files.key(), host.key));
  return write_private(files.certificate(), host.certificate + ca.certificate, false);
}

}  // namespace

Result<void> write_private(const std::string& path, const std::string& text, bool secret) {
  const std::string fresh = path + ".new";
  (void)::unlink(fresh.c_str());
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, secret ? 0600 : 0644);
  if (fd < 0) return os_error(errno, "create '" + fresh + "'");
  const ssize_t written = ::write(fd, text.data(), text.size());
  const int error = errno;
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  if (written != static_cast<ssize_t>(text.size()) || !synced) return os_error(error, "write '" + fresh + "'");
  if (::rename(fresh.c_str(), path.c_str()) != 0) return os_error(errno, "rename '" + fresh + "'");
  return {};
}

Result<HostIdentity> init_host(const std::string& state, const std::vector<std::string>& names, const std::string& user,
                               std::int64_t now_s) {
  const HostFiles files(state);
  std::error_code error;
  std::filesystem::create_directories(files.folder, error);
  if (error) return Error{ErrorCode::kIoError, "'" + files.folder + "' could not be created: " + error.message()};
  if (::chmod(state.c_str(), 0700) != 0) return os_error(errno, "chmod '" + state + "'");
  if (std::filesystem::exists(files.ca_key(), error)) {
    return Error{ErrorCode::kAlreadyExists, "'" + files.folder +
                                                "' has a CA already; `rota host init --renew` makes a new certificate "
                                                "for the host"};
  }
  ROTA_TRY_ASSIGN(const net::CertificateAndKey ca,
                  net::make_ca("rota " + names.front().substr(0, 50), now_s, kCaValid));
  ROTA_TRY(issue(files, ca, names, now_s));
  ROTA_TRY(write_private(files.ca(), ca.certificate, false));
  HostIdentity identity;
  identity.ca_file = files.ca();
  ROTA_TRY_ASSIGN(identity.ca_sha256, net::certificate_sha256({.text = ca.certificate}));
  const std::string tokens = state + "/" + std::string(kTokensFile);
  if (read_tokens(tokens).code() == ErrorCode::kNotFound) {
    ROTA_TRY_ASSIGN(identity.admin_token, create_token(tokens, {.id = "admin", .role = Role::kAdmin, .user = user}));
  }
  // Last: what came before can be done again.
  ROTA_TRY(write_private(files.ca_key(), ca.key));
  return identity;
}

Result<bool> renew_certificate(const std::string& state, std::int64_t now_s, bool always) {
  const HostFiles files(state);
  net::CertificateAndKey ca;
  ROTA_TRY_ASSIGN(ca.key, read_text(files.ca_key()));
  ROTA_TRY_ASSIGN(ca.certificate, read_text(files.ca()));
  ROTA_TRY_ASSIGN(const net::CertificateFacts facts, net::certificate_facts({.path = files.certificate()}));
  if (!always && facts.expires_s > now_s + kRenewBefore) return false;
  ROTA_TRY(issue(files, ca, facts.names, now_s));
  return true;
}

Result<std::string> ca_sha256(const std::string& state) {
  return net::certificate_sha256({.path = HostFiles(state).ca()});
}

}  // namespace rota::host
