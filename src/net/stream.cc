// What all streams share: the text form of endpoints, and reading an exact number of bytes.
#include "net/stream.h"

#include <algorithm>
#include <charconv>

#include "base/json_text.h"

namespace rota::net {

namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kLongestHost = 253;  // Of DNS, in characters.

Error not_an_endpoint(std::string_view text, std::string_view reason) {
  return Error{ErrorCode::kInvalidArgument, "'" + printable(text) + "' is not an endpoint: " + std::string(reason)};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_host_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
}

// "::1", "fe80::1%eth0".
bool is_ipv6(std::string_view host) {
  const std::size_t percent = host.find('%');
  const std::string_view address = host.substr(0, percent);
  if (percent != std::string_view::npos) {
    const std::string_view zone = host.substr(percent + 1);
    if (zone.empty() || !std::all_of(zone.begin(), zone.end(), is_host_character)) return false;
  }
  return address.find(':') != std::string_view::npos && address.find('\0') == std::string_view::npos &&
         fiber::Address::ip(address, 0).ok();
}

// The port in `digits`, or -1.
int port_of(std::string_view digits) {
  int port = 0;
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && port <= 65535 ? port : -1;
}

Result<Endpoint> parse_unix(std::string_view text) {
  const std::string_view path = text.substr(kUnixPrefix.size());
  if (path.find('\0') != std::string_view::npos) return not_an_endpoint(text, "its path contains a zero byte");
  if (Result<fiber::Address> address = fiber::Address::unix_path(path); !address.ok()) {
    return not_an_endpoint(text, address.error().message);
  }
  if (path == "@") return not_an_endpoint(text, "a name must follow the '@'");
  return Endpoint{.unix_path = std::string(path)};
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return parse_unix(text);
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return not_an_endpoint(text, "the ']' after the IPv6 address is missing");
    host = text.substr(1, end - 1);
    if (!is_ipv6(host)) return not_an_endpoint(text, "there is no IPv6 address between '[' and ']'");
    if (!text.substr(end + 1).starts_with(':')) return not_an_endpoint(text, "':PORT' must follow the ']'");
    port = text.substr(end + 2);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
      return not_an_endpoint(text, "the port is missing; write HOST:PORT, [IPV6]:PORT or unix:PATH");
    }
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.empty()) {
      return not_an_endpoint(text, "the host is missing; 0.0.0.0:PORT listens on every address of this machine");
    }
    if (host.find(':') != std::string_view::npos) {
      return not_an_endpoint(text, "an IPv6 address must be in brackets: [IPV6]:PORT");
    }
    if (host.size() > kLongestHost || !std::all_of(host.begin(), host.end(), is_host_character)) {
      return not_an_endpoint(text,
                             "the host must be a name or a numeric address; write HOST:PORT, [IPV6]:PORT or "
                             "unix:PATH");
    }
  }
  const int number = port_of(port);
  if (number < 0) return not_an_endpoint(text, "the port must be a number from 0 to 65535");
  return Endpoint{.host = std::string(host), .port = static_cast<std::uint16_t>(number)};
}

std::string Endpoint::to_string() const {
  if (!unix_path.empty()) return std::string(kUnixPrefix) + unix_path;
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<void> ByteStream::read_exactly(std::span<char> buffer, Deadline deadline) {
  for (std::size_t done = 0; done < buffer.size();) {
    Result<std::size_t> count = read_some(buffer.subspan(done), deadline);
    if (!count.ok()) [[unlikely]] {
      Error error = std::move(count).take_error();
      std::erase_if(error.details, [](const ErrorDetail& detail) { return detail.key == "done_bytes"; });
      return std::move(error).with("done_bytes", std::to_string(done));
    }
    if (*count == 0) {
      return Error{ErrorCode::kClosed, "read from " + peer() + ": the stream ended after " + std::to_string(done) +
                                           " of " + std::to_string(buffer.size()) + " bytes"}
          .with("done_bytes", std::to_string(done));
    }
    done += *count;
  }
  return {};
}

}  // namespace rota::net
