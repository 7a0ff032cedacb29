// HttpApi: decides who may do what, and calls the handlers of the routes (http_routes.h).
//
// In this order, with the head of a request alone, so that a body is read only for a request that is allowed:
//   1. Host and Origin. A browser that was led here under another name (DNS rebinding), or a page of another site,
//      is refused.
//   2. The route: 404, or 405 with Allow.
//   3. The token: 401. Every route but the probes needs one, also on loopback, where every user of the machine could
//      connect. Failures are counted per address; beyond ten a second they get 429 and are no longer logged. A valid
//      token is never refused because of somebody else's failures.
//   4. The role: 403. Parameters: 400. The type of the body: 415.
// A token is never in a URL or a cookie, so no page can send it in the name of its user.
//
// Thread safety: all functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/http_routes.h"
#include "host/http_tokens.h"
#include "net/http_server.h"

namespace rota::host {

// ASCII letters in lower case: names of hosts and types are compared so.
[[nodiscard]] std::string lower_case(std::string_view text);

class HttpApi final : public net::HttpHandler {
 public:
  // `hosts`: the names under which clients reach this host, without ports, in lower case; empty: any.
  // REQUIRES: services and tokens outlive it.
  HttpApi(HttpServices& services, Tokens& tokens, std::vector<std::string> hosts)
      : services_(services), tokens_(tokens), hosts_(std::move(hosts)) {}

  Admission admit(const net::HttpRequest& head) override;
  net::HttpResponse handle(net::HttpRequest& request) override;
  net::HttpResponse refuse(int status, const Error& error) override;

 private:
  struct Allowed {
    HttpMatch match{};
    Credential who{};
  };
  Result<Allowed> check(const net::HttpRequest& head);
  Result<void> check_origin(const net::HttpRequest& head) const;
  Result<Credential> identify(const net::HttpRequest& head);
  [[nodiscard]] bool is_ours(std::string_view authority) const;
  // Ends the stream of a response soon after its token is no longer valid.
  void guard_stream(net::HttpResponse& response, const net::HttpRequest& request);
  // Adds what every response has.
  net::HttpResponse finish(net::HttpResponse response) const;
  // The client's X-Request-Id if it is a short word, or a new one.
  std::string request_id(const net::HttpRequest& request);

  HttpServices& services_;
  Tokens& tokens_;
  const std::vector<std::string> hosts_;
  sync::Atomic<std::uint64_t> requests_{0};
};

}  // namespace rota::host
