// `rota host init`: a certificate authority, a certificate for the host's HTTP interface and a token for its
// administrator, in the state folder (H-5).
//
//   <state>/tls/ca.pem    the CA's certificate, for clients; valid for ten years
//   <state>/tls/ca.key    its key; a process that has it can impersonate the host
//   <state>/tls/host.pem  the host's certificate, followed by the CA's; valid for 90 days and renewed by the host
//   <state>/tls/host.key  its key
//
// Keys have mode 0600. A host whose state folder has these files uses them for --http.
//
// There is no command to replace the CA yet; docs/security.md describes how to do it by hand.
//
// Thread safety: functions without state; one process at a time per folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rota/result.h"

namespace rota::host {

struct HostFiles {
  explicit HostFiles(const std::string& state) : folder(state + "/tls") {}
  std::string folder;
  [[nodiscard]] std::string ca() const { return folder + "/ca.pem"; }
  [[nodiscard]] std::string ca_key() const { return folder + "/ca.key"; }
  [[nodiscard]] std::string certificate() const { return folder + "/host.pem"; }
  [[nodiscard]] std::string key() const { return folder + "/host.key"; }
};

struct HostIdentity {
  std::string admin_token{};  // Empty if there were tokens already.
  std::string ca_file{};
  std::string ca_sha256{};
};

// AlreadyExists if it was done before. `names`: under which clients reach the host. `user`: of the admin's token.
[[nodiscard]] Result<HostIdentity> init_host(const std::string& state, const std::vector<std::string>& names,
                                             const std::string& user, std::int64_t now_s);

// Makes a new certificate if the present one expires within 30 days, or in any case if `always`; false if not.
// NotFound if the folder has no CA of its own.
[[nodiscard]] Result<bool> renew_certificate(const std::string& state, std::int64_t now_s, bool always = false);

// The SHA-256 of the CA that signs the host's certificate. NotFound.
[[nodiscard]] Result<std::string> ca_sha256(const std::string& state);

// Writes a file with mode 0600, or 0644 if it is not `secret`, in the place of an older one.
[[nodiscard]] Result<void> write_private(const std::string& path, const std::string& text, bool secret = true);

}  // namespace rota::host
