#include "cli/remote_host.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "cli/subcommand.h"
#include "model/json.h"
#include "net/http_client.h"
#include "net/http_url.h"
#include "net/tls.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/time.h"

namespace rota::cli {

namespace {

constexpr std::string_view kSystemCas = "/etc/ssl/certs/ca-certificates.crt";
constexpr std::string_view kPin = "sha256:";
constexpr std::size_t kMostHops = 4;  // From leader to leader without a pause.
constexpr std::chrono::milliseconds kPause{200};
constexpr std::chrono::milliseconds kMostPause{2000};  // Of a reader that waits for a host to come back.
constexpr std::chrono::seconds kCommandWithin{10};
constexpr std::uint64_t kMostBody = std::uint64_t{1} << 30;  // A snapshot may be large.

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  return value == nullptr ? "" : value;
}

std::string context_path() {
  if (std::string path = environment("ROTA_CONTEXT"); !path.empty()) return path;
  if (const std::string config = environment("XDG_CONFIG_HOME"); !config.empty()) return config + "/rota/context";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.config/rota/context";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || (host.starts_with("127.") && fiber::Address::ip(host, 0).ok());
}

// The URLs of a list, each in the form of HttpUrl::to_string(). InvalidArgument if one is none, or if some have TLS and
// others do not.
Result<std::vector<std::string>> split_urls(std::string_view list) {
  std::vector<std::string> urls;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    ROTA_TRY_ASSIGN(const net::HttpUrl url, net::HttpUrl::parse(list.substr(begin, end - begin)));
    urls.push_back(url.to_string());
    if (urls.back().starts_with("https") != urls.front().starts_with("https")) {
      return Error{ErrorCode::kInvalidArgument, "either all URLs of a list begin with https:// or none does"};
    }
    begin = end + 1;
  }
  return urls;
}

// "https://a:1/" and "https://a:1" are one host.
std::string same_form(const std::string& url) {
  const Result<std::vector<std::string>> urls = split_urls(url);
  if (!urls.ok()) return url;
  std::string joined;
  for (const std::string& each : *urls) joined += (joined.empty() ? "" : ",") + each;
  return joined;
}

}  // namespace

Result<HostContext> parse_context(std::string_view text) {
  HostContext context;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.empty() || row.front() == '#') continue;
    const std::size_t equals = row.find('=');
    const std::string_view name = trimmed(row.substr(0, std::min(equals, row.size())));
    std::string* to = name == "url"     ? &context.url
                      : name == "token" ? &context.token
                      : name == "ca"    ? &context.ca
                                        : nullptr;
    if (equals == std::string_view::npos || to == nullptr) {
      return Error{ErrorCode::kParseError,
                   "line " + std::to_string(line) + ": write `url = URL`, `token = TOKEN` or `ca = FILE`"};
    }
    *to = trimmed(row.substr(equals + 1));
  }
  return context;
}

Result<HostContext> read_context() {
  const std::string path = context_path();
  std::ifstream file(path);
  if (path.empty() || !file) return HostContext{};
  std::ostringstream text;
  text << file.rdbuf();
  Result<HostContext> context = parse_context(text.str());
  if (!context.ok()) return std::move(context).take_error().in(path);
  struct stat status{};
  if (!context->token.empty() && ::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    return Error{ErrorCode::kPermissionDenied,
                 "'" + path + "' has a token, and other users may read it; run `chmod 600 " + path + "`"};
  }
  return context;
}

bool is_url(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

Result<std::string> default_url() {
  if (std::string url = environment("ROTA_URL"); !url.empty()) return url;
  ROTA_TRY_ASSIGN(HostContext context, read_context());
  return std::move(context.url);
}

Result<std::string> host_target(const std::string& given) {
  if (is_url(given)) return given;
  if (!given.empty()) return host_state_of(given);
  if (std::string url = environment("ROTA_URL"); !url.empty()) return url;
  if (!environment("ROTA_HOST_STATE").empty()) return host_state_of("");
  ROTA_TRY_ASSIGN(HostContext context, read_context());
  return context.url.empty() ? host_state_of("") : std::move(context.url);
}

struct RemoteHost::Body {
  std::vector<std::string> urls{};  // As they were given.
  std::size_t next = 0;             // Of them, to be tried after this one.
  std::string url{};                // Where requests are sent now.
  std::string token{};
  bool secure = false;
  std::unique_ptr<fiber::Runtime> runtime{};
  std::shared_ptr<net::TlsContext> tls{};
  std::unique_ptr<net::TlsNetwork> network{};
  std::unique_ptr<net::HttpClient> client{};
  std::function<void(const std::string&)> say{};  // Empty: a request that nobody answers fails.

  [[nodiscard]] Result<void> check(const std::string& to) const;
  Result<void> turn_to(const std::string& to);
};

RemoteHost::RemoteHost() : body_(std::make_unique<Body>()) {}
RemoteHost::~RemoteHost() {
  if (body_->client != nullptr) body_->runtime->run([&] { body_->client.reset(); });
}
const std::string& RemoteHost::url() const { return body_->url; }

Result<std::shared_ptr<RemoteHost>> RemoteHost::open(const std::string& url) {
  ROTA_TRY(split_urls(url));
  ROTA_TRY_ASSIGN(HostContext context, read_context());
  const bool same = !context.url.empty() && same_form(context.url) == same_form(url);
  if (!same) context = {};
  context.url = url;
  if (std::string token = environment("ROTA_TOKEN"); !token.empty()) context.token = std::move(token);
  if (std::string ca = environment("ROTA_CA"); !ca.empty()) context.ca = std::move(ca);
  return open(context);
}

Result<std::shared_ptr<RemoteHost>> RemoteHost::open(const HostContext& context) {
  ROTA_TRY_ASSIGN(std::vector<std::string> urls, split_urls(context.url));
  const std::string& ca = context.ca;
  const std::shared_ptr<RemoteHost> host(new RemoteHost());
  Body& body = *host->body_;
  body.urls = std::move(urls);
  body.token = context.token;
  body.secure = body.urls.front().starts_with("https");
  ROTA_TRY_ASSIGN(body.runtime, fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  if (body.secure) {
    net::TlsClientOptions options;
    if (ca.starts_with(kPin)) {
      options.ca_sha256 = ca.substr(kPin.size());
    } else {
      options.ca.path = ca.empty() ? std::string(kSystemCas) : ca;
    }
    options.settings.alpn = {"http/1.1"};
    ROTA_TRY_ASSIGN(body.tls, net::TlsContext::client(std::move(options)));
    body.network = std::make_unique<net::TlsNetwork>(net::real_network(), body.tls);
  }
  for (const std::string& url : body.urls) ROTA_TRY(body.check(url));
  ROTA_TRY(body.turn_to(body.urls.front()));
  body.next = 1 % body.urls.size();
  return host;
}

Result<void> RemoteHost::Body::check(const std::string& to) const {
  ROTA_TRY_ASSIGN(const net::HttpUrl parsed, net::HttpUrl::parse(to));
  if (parsed.tls != secure) return Error{ErrorCode::kFailedPrecondition, "'" + to + "' is not as secure as this host"};
  if (!parsed.tls && !token.empty() && !is_loopback(parsed.endpoint.host)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "'" + to + "' has no TLS: the token would be sent in the clear. Use https://"};
  }
  return {};
}

Result<void> RemoteHost::Body::turn_to(const std::string& to) {
  ROTA_TRY(check(to));
  ROTA_TRY_ASSIGN(const net::HttpUrl parsed, net::HttpUrl::parse(to));
  if (client != nullptr && url == parsed.to_string()) return {};
  if (client != nullptr) runtime->run([&] { client.reset(); });
  url = parsed.to_string();
  net::Network& to_use = network == nullptr ? net::real_network() : *network;
  client = std::make_unique<net::HttpClient>(to_use, parsed.endpoint, net::HttpClientLimits{.body_bytes = kMostBody});
  return {};
}

void RemoteHost::keep_trying(std::function<void(const std::string& text)> say) { body_->say = std::move(say); }

Result<net::HttpResponse> RemoteHost::ask(const Ask& ask) {
  std::chrono::milliseconds pause = kPause;
  for (bool waiting = false;; waiting = true) {
    Result<net::HttpResponse> response = ask_hosts(ask);
    if (!body_->say || ask.method != "GET") return response;
    if (response.ok() || !is_worth_trying_again(response.code())) {
      if (waiting) body_->say("the host at " + body_->url + " answers again");
      return response;
    }
    if (!waiting) body_->say(response.error().message + "; trying again until it answers");
    (void)body_->runtime->run([&] { return fiber::sleep_for(pause); });
    pause = std::min(pause * 2, kMostPause);
  }
}

Result<net::HttpResponse> RemoteHost::ask_hosts(const Ask& ask) {
  const auto until = std::chrono::steady_clock::now() + ask.within;
  for (std::size_t hops = 0;; ++hops) {
    Result<net::HttpResponse> response = ask_one(ask);
    if (response.ok()) return response;
    const std::string* leader = response.error().detail("leader");
    const bool misdirected = response.code() == ErrorCode::kNotLeader && leader != nullptr;
    const bool silent = body_->urls.size() > 1 &&
                        (response.code() == ErrorCode::kUnavailable || response.code() == ErrorCode::kTimeout ||
                         response.code() == ErrorCode::kDeadlineExceeded);
    if ((!misdirected && !silent) || std::chrono::steady_clock::now() >= until) return response;
    if (misdirected && !leader->empty()) {
      ROTA_TRY(body_->turn_to(*leader));
      if (hops < kMostHops) continue;
    } else if (body_->urls.size() > 1) {
      ROTA_TRY(body_->turn_to(body_->urls[body_->next]));
      body_->next = (body_->next + 1) % body_->urls.size();
      if (hops < body_->urls.size()) continue;  // Each of them once, without a pause.
    }
    (void)body_->runtime->run([] { return fiber::sleep_for(kPause); });
  }
}

Result<net::HttpResponse> RemoteHost::ask_one(const Ask& ask) {
  net::HttpClientRequest request{.method = ask.method, .target = ask.target, .body = ask.body};
  if (!body_->token.empty()) request.fields.push_back({"Authorization", "Bearer " + body_->token});
  if (!ask.type.empty()) request.fields.push_back({"Content-Type", ask.type});
  if (!ask.key.empty()) request.fields.push_back({"Idempotency-Key", ask.key});
  request.fields.push_back({"User-Agent", "rota"});
  // A host that hangs must not use up the time for a command that another host would accept.
  const auto within = body_->urls.size() > 1 && ask.method != "GET" ? std::min(ask.within, kCommandWithin) : ask.within;
  Result<net::HttpResponse> response = body_->runtime->run([&] { return body_->client->call(request, within); });
  if (!response.ok()) {
    Error error = std::move(response).take_error();
    if (error.code == ErrorCode::kClosed) error.code = ErrorCode::kUnavailable;
    if (error.code == ErrorCode::kUnavailable)
      error.message = "the host at " + body_->url + " does not answer: " + error.message;
    return error;
  }
  if (response->status < 400) return response;
  Error error = problem_of(*response);
  if (error.code == ErrorCode::kUnauthenticated && body_->token.empty()) {
    error.message =
        "the host at " + body_->url + " needs a token: set ROTA_TOKEN, or `token = ...` in the context file";
  }
  return error;
}

bool is_worth_trying_again(ErrorCode code) {
  const int status = exit_status(code);
  return status == exit_status(ErrorCode::kUnavailable) || status == exit_status(ErrorCode::kTimeout);
}

Error problem_of(const net::HttpResponse& response) {
  Error error{ErrorCode::kUnavailable, "the server answered with the status " + std::to_string(response.status) + " " +
                                           std::string(net::http_reason(response.status))};
  const std::string_view body = response.body;
  if (model::json_validate(body).ok() && model::json_kind(body) == model::JsonKind::kObject) {
    const auto text = [&](std::string_view name) {
      const std::string_view value = model::json_member(body, name);
      return value.data() != nullptr && model::json_kind(value) == model::JsonKind::kString
                 ? model::json_unescape(value)
                 : std::string();
    };
    // A code that this release does not know has the meaning of its status.
    if (const ErrorCodeInfo* info = find_error_code(text("code")); info != nullptr) error.code = info->code;
    if (std::string detail = text("detail"); !detail.empty()) error.message = std::move(detail);
    const std::string_view details = model::json_member(body, "details");
    if (details.data() != nullptr && model::json_kind(details) == model::JsonKind::kObject) {
      for (const auto& [name, value] : model::json_members(details)) {
        if (model::json_kind(value) != model::JsonKind::kString) continue;
        error.details.push_back({name, model::json_unescape(value)});
      }
    }
  } else if (!body.empty() && body.size() < 200) {
    error.message += ": " + printable(body, 200);
  }
  return error;
}

std::uint64_t index_of(const net::HttpResponse& response) {
  const std::string* text = response.field("rota-index");
  std::uint64_t index = 0;
  if (text != nullptr) (void)std::from_chars(text->data(), text->data() + text->size(), index);
  return index;
}

}  // namespace rota::cli
