// RemoteHost: a host that is reached over HTTP, as the subcommands see it. And which host they mean.
//
//   --host URL, --state DIR    one of them, or WHERE of the subcommands that read
//   ROTA_URL                   the host's URL: https://rota.example:7070
//   ROTA_HOST_STATE            the state folder of a host on this machine
//   the context file           $ROTA_CONTEXT, or ~/.config/rota/context; `rota host init` prints one:
//                                url = https://rota.example:7070
//                                token = rota_ann_...
//                                ca = /etc/rota/ca.pem         or  ca = sha256:<64 hexadecimal digits>
//   .rota/host                 otherwise
//
// A URL may be a list, URL,URL,URL, of hosts that share one log. A host that does not lead names the one that does, and
// the request is sent there, with the same idempotency key; so are later ones. While no host leads, or none answers,
// the request is repeated until its time is over. A leader is followed from https:// to https:// only.
//
// The token is ROTA_TOKEN, or that of the context file if the URL is the file's; ROTA_CA likewise. A file with a token
// that others may read is refused. A token is never sent without TLS to another machine.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/control_protocol.h"
#include "net/http.h"
#include "rota/result.h"

namespace rota::cli {

struct HostContext {
  std::string url{};
  std::string token{};
  std::string ca{};  // A file, or "sha256:..."; empty: the system's CAs.
};

// The context file's text. ParseError with the line.
[[nodiscard]] Result<HostContext> parse_context(std::string_view text);
// The context file; an empty context if there is none. PermissionDenied if others may read a token in it.
[[nodiscard]] Result<HostContext> read_context();

[[nodiscard]] bool is_url(std::string_view text);
// The URL that WHERE means if it is left out: ROTA_URL, else the context file's, else empty.
[[nodiscard]] Result<std::string> default_url();
// What the option --host or --state means: a URL, or a folder's absolute path.
[[nodiscard]] Result<std::string> host_target(const std::string& given);

class RemoteHost {
 public:
  struct Ask {
    std::string method = "GET";
    std::string target{};
    std::string type{};  // Content-Type of the body.
    std::string body{};
    std::string key{};  // Idempotency-Key.
    std::chrono::seconds within{60};
  };

  // Finds token and CA for the URL, or the list of URLs. No connection yet.
  static Result<std::shared_ptr<RemoteHost>> open(const std::string& url);
  // With exactly these.
  static Result<std::shared_ptr<RemoteHost>> open(const HostContext& context);
  ~RemoteHost();
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  // A response with a status below 400. A problem (RFC 9457) becomes an error with its code, sentence and details, and
  // with the detail "status". Unavailable, with what to do, if nobody answers. Starts a runtime: call it outside of
  // one.
  Result<net::HttpResponse> ask(const Ask& ask);
  // From now on, a read (GET) that fails because the host does not answer is repeated with backoff until it answers.
  // For subcommands that follow a run and have had a first answer: a host that restarts does not end them. `say` gets a
  // sentence when the host stops answering, and one when it answers again.
  void keep_trying(std::function<void(const std::string& text)> say);
  // The host that the last request was sent to.
  [[nodiscard]] const std::string& url() const;

 private:
  RemoteHost();
  Result<net::HttpResponse> ask_hosts(const Ask& ask);
  Result<net::HttpResponse> ask_one(const Ask& ask);
  struct Body;
  std::unique_ptr<Body> body_;
};

// Whether a request that failed like this may succeed later without a change: nobody answered, or not in time.
[[nodiscard]] bool is_worth_trying_again(ErrorCode code);

// The error of a response with a status of 400 or more.
[[nodiscard]] Error problem_of(const net::HttpResponse& response);

// The Rota-Index of a response; 0 if it has none.
[[nodiscard]] std::uint64_t index_of(const net::HttpResponse& response);

// A request of the control socket (host/control_protocol.h) as HTTP requests.
[[nodiscard]] Result<host::ControlAnswer> ask_remote(RemoteHost& host, const host::ControlRequest& request);

}  // namespace rota::cli
