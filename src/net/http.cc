// What HTTP messages are made of, without the parser. See net/http.h.
#include "net/http.h"

#include <algorithm>

#include "base/json_text.h"

namespace rota::net {

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Error not_a_target(std::string_view reason) {
  return Error{ErrorCode::kInvalidArgument, "the request target " + std::string(reason)};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

const std::string* find_field(const std::vector<HttpField>& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const HttpField& f) { return f.name == name; });
  return found == fields.end() ? nullptr : &found->value;
}

// Adds the fields and the empty line.
std::string head_with(std::string head, const std::vector<HttpField>& fields) {
  const auto append = [&head](std::string_view text) {
    for (const char c : text) head.push_back(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
  };
  head.append("\r\n");
  for (const HttpField& field : fields) {
    append(field.name);
    head.append(": ");
    append(field.value);
    head.append("\r\n");
  }
  return head.append("\r\n");
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

const std::string* HttpRequest::field(std::string_view name) const { return find_field(fields, name); }
const std::string* HttpResponse::field(std::string_view name) const { return find_field(fields, name); }

const std::string* HttpRequest::parameter(std::string_view name) const {
  const auto found = std::find_if(query.begin(), query.end(), [&](const auto& pair) { return pair.first == name; });
  return found == query.end() ? nullptr : &found->second;
}

std::string_view http_reason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

Result<std::string> percent_decode(std::string_view text, bool plus, bool keep_slash) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus) {
      c = ' ';
    } else if (c == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) return not_a_target("has a '%' without two hexadecimal digits after it");
      c = static_cast<char>(high * 16 + low);
      if (c == '/' && keep_slash) {
        out.append("%2F");
        i += 2;
        continue;
      }
      i += 2;
    }
    if (is_control(c)) return not_a_target("contains a control character");
    out.push_back(c);
  }
  if (!is_utf8(out)) return not_a_target("is not valid UTF-8");
  return out;
}

Result<void> parse_target(HttpRequest& request) {
  const std::string_view target = request.target;
  if (!target.starts_with('/')) return not_a_target("must be an absolute path, for example /v1/workflows");
  if (target.find('#') != std::string_view::npos) return not_a_target("must not contain a fragment ('#')");
  const std::size_t mark = target.find('?');
  ROTA_TRY_ASSIGN(request.path, percent_decode(target.substr(0, mark), false, true));
  request.query.clear();
  if (mark == std::string_view::npos) return {};
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    ROTA_TRY_ASSIGN(std::string name, percent_decode(pair.substr(0, equals), true, false));
    std::string value;
    if (equals != std::string_view::npos) {
      ROTA_TRY_ASSIGN(value, percent_decode(pair.substr(equals + 1), true, false));
    }
    request.query.emplace_back(std::move(name), std::move(value));
  }
  return {};
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return out;
}

std::string response_head(int status, const std::vector<HttpField>& fields) {
  return head_with("HTTP/1.1 " + std::to_string(status) + " " + std::string(http_reason(status)), fields);
}

std::string request_head(std::string_view method, std::string_view target, const std::vector<HttpField>& fields) {
  return head_with(std::string(method) + " " + std::string(target) + " HTTP/1.1", fields);
}

}  // namespace rota::net
