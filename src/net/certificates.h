// Makes certificates: a certificate authority of one's own, and what it signs (H-5). Keys are on the curve P-256.
//
//   ROTA_TRY_ASSIGN(const CertificateAndKey ca, make_ca("rota", std::chrono::hours(24 * 3650), now));
//   ROTA_TRY_ASSIGN(const CertificateAndKey host, issue_certificate(ca, {.names = {"rota.example", "10.0.0.7"}, ...}));
//
// Thread safety: functions without state.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "net/tls.h"
#include "rota/result.h"

namespace rota::net {

// Both in PEM form.
struct CertificateAndKey {
  std::string certificate{};
  std::string key{};
};

struct CertificateRequest {
  std::vector<std::string> names{};  // Of a server: host names and numeric addresses. The first is the common name.
  std::int64_t now_s = 0;            // Wall time.
  std::chrono::seconds valid{};      // It begins an hour earlier, for clocks that differ.
};

// Signs itself; it can sign servers, and no further CAs.
[[nodiscard]] Result<CertificateAndKey> make_ca(const std::string& name, std::int64_t now_s,
                                                std::chrono::seconds valid);
// InvalidArgument for a name that is neither a host name nor an address; Corrupt if the CA cannot be read.
[[nodiscard]] Result<CertificateAndKey> issue_certificate(const CertificateAndKey& ca,
                                                          const CertificateRequest& request);
// When the first certificate of the source expires, in seconds since 1970, and the names that it is for.
struct CertificateFacts {
  std::int64_t expires_s = 0;
  std::vector<std::string> names{};
};
[[nodiscard]] Result<CertificateFacts> certificate_facts(const PemSource& certificate);

}  // namespace rota::net
