// What TLS reports, as sentences that say which check failed and what to do.
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "net/tls_openssl.h"

namespace rota::net {

namespace {

constexpr int kNamesShown = 5;

std::string text_of(const ASN1_TIME* time) {
  const Owned<BIO> out(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (out == nullptr || ASN1_TIME_print(out.get(), time) != 1) return "an unreadable date";
  const long size = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

std::string text_of(const GENERAL_NAME& name) {
  if (name.type == GEN_DNS) {
    const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name.d.dNSName));
    return printable({data, static_cast<std::size_t>(ASN1_STRING_length(name.d.dNSName))});
  }
  if (name.type == GEN_IPADD) {
    const unsigned char* data = ASN1_STRING_get0_data(name.d.iPAddress);
    const int size = ASN1_STRING_length(name.d.iPAddress);
    char text[INET6_ADDRSTRLEN] = "";
    if (size == 4) inet_ntop(AF_INET, data, text, sizeof text);
    if (size == 16) inet_ntop(AF_INET6, data, text, sizeof text);
    return text;
  }
  return {};
}

// The names and addresses in the certificate's subjectAltName.
std::string names_of(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string text;
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names);
  for (int i = 0; i < count; ++i) {
    if (i == kNamesShown) {
      text += ", ...";
      break;
    }
    const std::string name = text_of(*sk_GENERAL_NAME_value(names, i));
    if (!name.empty()) text += (text.empty() ? "'" : ", '") + name + "'";
  }
  GENERAL_NAMES_free(names);
  return text.empty() ? "no name at all (subjectAltName is missing)" : text;
}

Error unauthenticated(std::string_view operation, std::string kind, const std::string& sentence) {
  return Error{ErrorCode::kUnauthenticated, std::string(operation) + ": " + sentence}.with("tls", std::move(kind));
}

// An alert that the peer sent.
Error alert_error(std::string_view operation, int alert, TlsVersion min_version) {
  const std::string name = SSL_alert_desc_string_long(alert);
  switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR:
      return unauthenticated(operation, "refused_by_peer",
                             "the peer refused the certificate of this end (" + name +
                                 "); check that the peer trusts the CA that signed it, and its dates and names");
    case SSL_AD_CERTIFICATE_REQUIRED:
      return unauthenticated(operation, "refused_by_peer",
                             "the peer requires a certificate of this end, and there is none; configure a certificate "
                             "and key that are signed by a CA that the peer trusts");
    case SSL_AD_PROTOCOL_VERSION:
      return Error{ErrorCode::kUnsupported,
                   std::string(operation) + ": the peer accepts no TLS version that this end allows (" +
                       (min_version == TlsVersion::k13 ? "1.3); allow 1.2 here, or update the peer"
                                                       : "1.2 and 1.3); update the peer")};
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return Error{ErrorCode::kUnsupported,
                   std::string(operation) + ": the peer supports none of the protocols that this end offers (ALPN)"};
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_INSUFFICIENT_SECURITY:
      return Error{ErrorCode::kUnsupported,
                   std::string(operation) + ": the two ends have no cipher or signature in common (" + name + ")"};
    default:
      return Error{ErrorCode::kClosed, std::string(operation) + ": the peer ended the TLS connection: " + name};
  }
}

}  // namespace

std::string common_name(const X509_NAME* name) {
  const int index = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (index < 0) return {};
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)));
  if (size < 0) return {};
  std::string text = printable({reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size)});
  OPENSSL_free(utf8);
  return text;
}

int verify_certificate(X509_STORE_CTX* store, void* argument) {
  const auto& config = *static_cast<const TlsContext::Config*>(argument);
  STACK_OF(X509)* anchors = nullptr;
  int verified = 0;
  if (!config.pinned) {
    verified = X509_verify_cert(store);
  } else {
    // The CA is known by its hash alone: it is the only anchor if the peer presents it.
    anchors = sk_X509_new_null();
    const STACK_OF(X509)* presented = X509_STORE_CTX_get0_untrusted(store);
    for (int i = 0; i < sk_X509_num(presented); ++i) {
      X509* certificate = sk_X509_value(presented, i);
      if (sha256_of(certificate) == config.pin) sk_X509_push(anchors, certificate);
    }
    if (sk_X509_num(anchors) == 0) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
      X509_STORE_CTX_set_current_cert(store, X509_STORE_CTX_get0_cert(store));
    } else {
      X509_STORE_CTX_set0_trusted_stack(store, anchors);
      verified = X509_verify_cert(store);
    }
  }
  if (verified != 1) {
    const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* refusal = static_cast<TlsRefusal*>(SSL_get_app_data(ssl));
    refusal->code = X509_STORE_CTX_get_error(store);
    if (refusal->code == X509_V_OK) refusal->code = X509_V_ERR_UNSPECIFIED;
    if (const X509* certificate = X509_STORE_CTX_get_current_cert(store); certificate != nullptr) {
      refusal->subject = common_name(X509_get_subject_name(certificate));
      refusal->issuer = common_name(X509_get_issuer_name(certificate));
      refusal->names = names_of(certificate);
      refusal->not_before = text_of(X509_get0_notBefore(certificate));
      refusal->not_after = text_of(X509_get0_notAfter(certificate));
    }
  }
  sk_X509_free(anchors);
  return verified == 1 ? 1 : 0;
}

OpensslError take_errors() {
  OpensslError first;
  while (const unsigned long code = ERR_get_error()) {
    if (first.code == 0) first.code = code;
    const char* reason = ERR_reason_error_string(code);
    const std::string text = reason != nullptr ? reason : "error " + std::to_string(code);
    first.text += (first.text.empty() ? "" : ", ") + text;
  }
  return first;
}

Error refusal_error(std::string_view operation, const TlsRefusal& refusal, std::string_view expected_name) {
  const std::string certificate = "the certificate '" + refusal.subject + "'";
  switch (refusal.code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return unauthenticated(
          operation, "expired",
          certificate + " expired on " + refusal.not_after + "; renew it, or check the clock of this machine");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return unauthenticated(
          operation, "not_yet_valid",
          certificate + " is not valid before " + refusal.not_before + "; check the clocks of both machines");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return unauthenticated(operation, "wrong_name",
                             certificate + " is for " + refusal.names + ", not for '" + printable(expected_name) +
                                 "'; connect by a name that it has, or issue one for this name");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return unauthenticated(
          operation, "unknown_ca",
          certificate + " is signed by '" + refusal.issuer +
              "', which is not among the trusted CAs; add that CA's certificate to them if it should be");
    case X509_V_ERR_APPLICATION_VERIFICATION:
      return unauthenticated(operation, "wrong_pin",
                             "no certificate that the peer presented has the SHA-256 that was pinned; the peer has "
                             "another CA, or does not send its CA's certificate after its own");
    default:
      return unauthenticated(operation, "bad_certificate",
                             certificate + " was refused: " + X509_verify_cert_error_string(refusal.code));
  }
}

Error tls_error(std::string_view operation, const OpensslError& error, TlsVersion min_version) {
  const int reason = ERR_GET_REASON(error.code);
  if (ERR_GET_LIB(error.code) == ERR_LIB_SSL) {
    if (reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
      return alert_error(operation, reason - SSL_AD_REASON_OFFSET, min_version);
    }
    switch (reason) {
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_HTTP_REQUEST:
      case SSL_R_HTTPS_PROXY_REQUEST:
      case SSL_R_UNKNOWN_PROTOCOL:
        return Error{ErrorCode::kUnsupported, std::string(operation) + ": the peer does not speak TLS (" + error.text +
                                                  "); check the port, and that TLS is switched on there"};
      case SSL_R_UNSUPPORTED_PROTOCOL:
      case SSL_R_VERSION_TOO_LOW:
      case SSL_R_NO_PROTOCOLS_AVAILABLE:
        return alert_error(operation, SSL_AD_PROTOCOL_VERSION, min_version);
      case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return unauthenticated(operation, "bad_certificate",
                               "the peer presented no certificate, and this end requires one; configure a certificate "
                               "and key at the peer");
      case SSL_R_NO_SHARED_CIPHER:
      case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
      case SSL_R_NO_SUITABLE_KEY_SHARE:
        return alert_error(operation, SSL_AD_HANDSHAKE_FAILURE, min_version);
      case SSL_R_NO_APPLICATION_PROTOCOL:
        return Error{ErrorCode::kUnsupported,
                     std::string(operation) + ": the peer offers only protocols (ALPN) that this end does not support"};
      default:
        break;
    }
  }
  return Error{ErrorCode::kCorrupt, std::string(operation) + ": the peer sent something that is not valid TLS: " +
                                        (error.text.empty() ? "unknown reason" : error.text)};
}

Error truncated_error(std::string_view operation) {
  return Error{ErrorCode::kClosed, std::string(operation) +
                                       ": the connection ended without TLS's close_notify; the peer died, or somebody "
                                       "cut the connection"}
      .with("tls", "truncated");
}

}  // namespace rota::net
