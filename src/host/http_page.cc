// Handlers that serve the dashboard (W-1): the page at `/`, and its files at /page/. They need no token: the page asks
// its user for one, and sends it with every request for data.
#include <array>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/json_text.h"
#include "host/http_routes.h"
#include "host/page_files.h"

namespace rota::host {

namespace {

// The page runs its own scripts, talks to this host, and does nothing else: nothing is loaded from elsewhere, no other
// site shows it in a frame, and a name that contains markup cannot become a script.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

net::HttpResponse page_response(const net::HttpRequest& request, const PageFile& file) {
  const std::string tag = "\"" + hash128(file.gzip).to_string() + "\"";
  net::HttpResponse response;
  response.fields = {{"Content-Type", std::string(file.type)},
                     {"Content-Security-Policy", std::string(kContentPolicy)},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cross-Origin-Opener-Policy", "same-origin"},
                     {"Cross-Origin-Resource-Policy", "same-origin"},
                     {"Cache-Control", "no-cache"},
                     {"ETag", tag}};
  if (const std::string* known = request.field("if-none-match"); known != nullptr && *known == tag) {
    response.status = 304;
    return response;
  }
  response.fields.push_back({"Content-Encoding", "gzip"});
  response.body = std::string(file.gzip);
  return response;
}

}  // namespace

namespace routes {

Result<net::HttpResponse> page(HttpCall& call) { return page_response(call.request, *find_page_file("index.html")); }

Result<net::HttpResponse> page_file(HttpCall& call) {
  const PageFile* file = find_page_file(call.path[0]);
  if (file == nullptr) {
    return Error{ErrorCode::kNotFound, "the dashboard has no file '" + printable(call.path[0]) + "'"};
  }
  return page_response(call.request, *file);
}

}  // namespace routes

}  // namespace rota::host
