// libFuzzer: no bytes crash the server; how they are cut into pieces changes neither which requests reach the handler
// nor what they contain; and every request that does is within its bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1 << 14));
  const std::vector<std::string> whole = requests_in(bytes, bytes.size() + 1);
  ROTA_ASSERT(requests_in(bytes, 1) == whole, "the pieces in which requests arrive changed them");
  ROTA_ASSERT(requests_in(bytes, 7) == whole, "the pieces in which requests arrive changed them");
  return 0;
}
