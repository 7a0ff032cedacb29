#include "net/http_url.h"

namespace rota::net {

namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

Error wrong(std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               "the URL of a host " + std::string(why) + "; write it like https://rota.example:7070"};
}

}  // namespace

Result<HttpUrl> HttpUrl::parse(std::string_view text) {
  HttpUrl url;
  if (text.starts_with("https://")) {
    url.tls = true;
    text.remove_prefix(8);
  } else if (text.starts_with("http://")) {
    text.remove_prefix(7);
  } else {
    return wrong("begins with http:// or https://");
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find('@') != std::string_view::npos) return wrong("has no user or password; use ROTA_TOKEN");
  if (text.find_first_of("/?#") != std::string_view::npos) return wrong("has no path");
  if (text.empty()) return wrong("names a host");
  // "host", "host:1", "[::1]", "[::1]:1"
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos;
  const std::string with_port =
      has_port ? std::string(text) : std::string(text) + ":" + std::to_string(url.tls ? kHttpsPort : kHttpPort);
  Result<Endpoint> endpoint = Endpoint::parse(with_port);
  if (!endpoint.ok() || !endpoint->unix_path.empty() || endpoint->host.empty() || endpoint->port == 0) {
    return wrong("needs a host and a port from 1 to 65535");
  }
  url.endpoint = std::move(*endpoint);
  return url;
}

std::string HttpUrl::to_string() const { return (tls ? "https://" : "http://") + endpoint.to_string(); }

}  // namespace rota::net
