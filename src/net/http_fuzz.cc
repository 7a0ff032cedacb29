// libFuzzer: no bytes crash the server or the client; how they are cut into pieces changes neither which requests reach
// the handler, nor which response the client returns, nor what they contain; and all of them are within their bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_client.h"
#include "net/http_server.h"
#include "rota/assert.h"

namespace {

using namespace rota;  // NOLINT(*-build-using-namespace)
using net::HttpRequest;
using net::HttpResponse;

constexpr std::uint64_t kMostBody = 1000;
constexpr std::size_t kMostHead = 512;

class Pieces final : public net::ByteStream {
 public:
  Pieces(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}
  Result<std::size_t> read_some(std::span<char> buffer, net::Deadline) override {
    const std::size_t size = std::min({piece_, buffer.size(), bytes_.size()});
    std::copy_n(bytes_.data(), size, buffer.data());
    bytes_.remove_prefix(size);
    return size;
  }
  Result<void> write_all(std::string_view bytes, net::Deadline) override {
    written_ += bytes.size();
    return {};
  }
  Result<void> shutdown_write(net::Deadline) override { return {}; }
  void close() override {}
  [[nodiscard]] std::string peer() const override { return "fuzzer"; }

 private:
  std::string_view bytes_;
  const std::size_t piece_;
  std::size_t written_ = 0;
};

// Every connection gets the same bytes.
class SameBytes final : public net::Network {
 public:
  SameBytes(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}
  Result<std::unique_ptr<net::ByteStream>> connect(const net::Endpoint&, net::Deadline) override {
    return std::unique_ptr<net::ByteStream>(std::make_unique<Pieces>(bytes_, piece_));
  }
  Result<std::unique_ptr<net::Listener>> listen(const net::Endpoint&) override { return ErrorCode::kUnsupported; }

 private:
  const std::string_view bytes_;
  const std::size_t piece_;
};

class NoListener final : public net::Listener {
 public:
  Result<std::unique_ptr<net::ByteStream>> accept(net::Deadline) override { return ErrorCode::kClosed; }
  [[nodiscard]] net::Endpoint endpoint() const override { return {}; }
  void close() override {}
};

class Recorder final : public net::HttpHandler {
 public:
  Admission admit(const HttpRequest& head) override {
    if (head.path == "/no") return HttpResponse{.status = 403};
    return kMostBody;
  }
  HttpResponse handle(HttpRequest& request) override {
    ROTA_ASSERT(request.body.size() <= kMostBody, "a body beyond its bound");
    ROTA_ASSERT(request.path.starts_with('/') && request.target.size() <= kMostHead, "a target beyond its bound");
    std::string seen = request.method + " " + request.path + " " + request.body;
    for (const auto& [name, value] : request.query) seen += "?" + name + "=" + value;
    for (const net::HttpField& field : request.fields) seen += "\n" + field.name + ": " + field.value;
    requests.push_back(std::move(seen));
    return {.status = 200, .body = "ok"};
  }
  HttpResponse refuse(int status, const Error&) override { return {.status = status}; }

  std::vector<std::string> requests;
};

std::vector<std::string> requests_in(std::string_view bytes, std::size_t piece) {
  NoListener listener;
  Recorder recorder;
  net::HttpServer server(listener, recorder, {.head_bytes = kMostHead}, [] { return std::time_t{0}; });
  Pieces stream(bytes, piece);
  server.serve(stream);
  return recorder.requests;
}

std::string describe(const Result<net::HttpResponse>& response) {
  if (!response.ok()) return "error " + std::string(to_string(response.code()));
  ROTA_ASSERT(response->status >= 200 && response->body.size() <= kMostBody, "a response beyond its bound");
  std::string seen = std::to_string(response->status) + " " + response->body;
  for (const net::HttpField& field : response->fields) seen += "\n" + field.name + ": " + field.value;
  return seen;
}

std::string response_in(std::string_view bytes, std::size_t piece) {
  SameBytes network(bytes, piece);
  // A client each: bytes behind a response belong to no request.
  const auto client = [&network] {
    return std::make_unique<net::HttpClient>(network, net::Endpoint{.host = "h", .port = 1},
                                             net::HttpClientLimits{.head_bytes = kMostHead, .body_bytes = kMostBody});
  };
  std::string seen = describe(client()->call({.method = "GET"}, {})) + "\n";
  seen += describe(client()->call({.method = "HEAD"}, {})) + "\n";
  std::string streamed;
  const Result<net::HttpResponse> response = client()->stream({}, {}, {}, [&](std::string_view part) {
    streamed += part;
    return true;
  });
  // How much of a body that turns out wrong was passed on depends on the pieces.
  return seen + describe(response) + (response.ok() ? streamed : "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1 << 14));
  const std::vector<std::string> whole = requests_in(bytes, bytes.size() + 1);
  ROTA_ASSERT(requests_in(bytes, 1) == whole, "the pieces in which requests arrive changed them");
  ROTA_ASSERT(requests_in(bytes, 7) == whole, "the pieces in which requests arrive changed them");
  const std::string response = response_in(bytes, bytes.size() + 1);
  ROTA_ASSERT(response_in(bytes, 1) == response, "the pieces in which a response arrives changed it");
  ROTA_ASSERT(response_in(bytes, 7) == response, "the pieces in which a response arrives changed it");
  return 0;
}
