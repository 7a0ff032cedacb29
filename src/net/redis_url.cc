#include "net/redis_url.h"

#include <charconv>
#include <utility>

#include "base/json_text.h"

namespace rota::net {

namespace {

constexpr std::string_view kForms =
    "; write redis://[user[:password]@]host[:port][/database], rediss://... for TLS, or "
    "redis+unix://[user[:password]@]/path[?db=database]";

Error invalid(std::string_view what) {
  return {ErrorCode::kInvalidArgument, "the URL of Redis " + std::string(what) + std::string(kForms)};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return invalid("has a '%' that two hexadecimal digits do not follow");
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// "user:password@", if it is there, is removed from the front.
Result<void> take_account(std::string_view& rest, RedisUrl& url) {
  const std::size_t authority_end = rest.find('/');
  const std::size_t at = rest.substr(0, authority_end).rfind('@');
  if (at == std::string_view::npos) return {};
  const std::string_view account = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const std::size_t colon = account.find(':');
  ROTA_TRY_ASSIGN(url.user, percent_decoded(account.substr(0, colon)));
  if (colon != std::string_view::npos) {
    ROTA_TRY_ASSIGN(url.password, percent_decoded(account.substr(colon + 1)));
  }
  if (!url.user.empty() && url.password.empty()) return invalid("has a user without a password");
  return {};
}

Result<void> parse_host(std::string_view text, RedisUrl& url) {
  url.endpoint = {.host = {}, .port = RedisUrl::kPort, .unix_path = {}};
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return invalid("has an IPv6 address without ']'");
    url.endpoint.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (!text.empty() && text.front() != ':') return invalid("has something other than a port after the address");
    if (!text.empty()) port = text.substr(1);
  } else {
    const std::size_t colon = text.find(':');
    url.endpoint.host = text.substr(0, colon);
    if (colon != std::string_view::npos) port = text.substr(colon + 1);
    if (port.find(':') != std::string_view::npos) return invalid("has an IPv6 address without brackets");
  }
  if (url.endpoint.host.empty()) return invalid("has no host");
  if (!port.empty() && (!parse_number(port, url.endpoint.port) || url.endpoint.port == 0)) {
    return invalid("has a port that is not a number from 1 to 65535");
  }
  return {};
}

}  // namespace

Result<RedisUrl> RedisUrl::parse(std::string_view text) {
  RedisUrl url;
  std::string_view database;
  if (text.starts_with("redis+unix://")) {
    text.remove_prefix(13);
    ROTA_TRY(take_account(text, url));
    const std::size_t question = text.find('?');
    if (question != std::string_view::npos) {
      if (!text.substr(question).starts_with("?db=")) return invalid("has a parameter other than db");
      database = text.substr(question + 4);
      text = text.substr(0, question);
      if (database.empty()) return invalid("has an empty database");
    }
    if (!text.starts_with('/') || text.size() < 2) return invalid("has no absolute path of a socket");
    url.endpoint = {.host = {}, .port = 0, .unix_path = std::string(text)};
  } else if (text.starts_with("redis://") || text.starts_with("rediss://")) {
    url.tls = text.starts_with("rediss://");
    text.remove_prefix(url.tls ? 9 : 8);
    ROTA_TRY(take_account(text, url));
    const std::size_t slash = text.find('/');
    if (slash != std::string_view::npos) database = text.substr(slash + 1);
    ROTA_TRY(parse_host(text.substr(0, slash), url));
  } else {
    return invalid("begins neither with redis://, rediss:// nor redis+unix://");
  }
  if (!database.empty() && !parse_number(database, url.database)) return invalid("has a database that is not a number");
  return url;
}

std::string RedisUrl::to_string() const {
  const bool is_unix = !endpoint.unix_path.empty();
  std::string text = is_unix ? "redis+unix://" : tls ? "rediss://" : "redis://";
  if (!user.empty()) text += printable(user) + "@";
  text += is_unix ? printable(endpoint.unix_path, 200) : endpoint.to_string();
  if (database != 0) text += (is_unix ? "?db=" : "/") + std::to_string(database);
  return text;
}

}  // namespace rota::net
