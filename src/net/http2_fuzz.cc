// libFuzzer: no bytes of a server crash the client's HTTP/2 session or the reader of gRPC messages; how they are cut
// into pieces changes nothing; and what a stream holds stays within its bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/grpc.h"
#include "net/http2_session.h"
#include "rota/assert.h"

namespace {

using namespace rota;  // NOLINT(*-build-using-namespace)

constexpr std::uint32_t kWindow = 1U << 16;

struct Outcome {
  bool failed = false;
  std::string seen{};
  std::vector<std::string> messages{};
  bool operator==(const Outcome&) const = default;
};

Outcome feed(std::string_view bytes, std::size_t piece) {
  net::Http2Session session({.authority = "fuzz", .window_bytes = kWindow, .head_bytes = 4096});
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 2; ++i) ids.push_back(session.submit("/p", {{"te", "trailers"}}, "body").value());
  while (!session.output().empty()) {
  }
  Outcome outcome;
  while (!bytes.empty() && !outcome.failed) {
    const std::size_t size = std::min(piece, bytes.size());
    outcome.failed = !session.receive(bytes.substr(0, size)).ok();
    bytes.remove_prefix(size);
    while (!session.output().empty()) {
    }
    (void)session.take_touched();
    for (const std::int32_t id : ids)
      ROTA_ASSERT(session.find(id)->body.size() <= kWindow, "a stream above its window");
  }
  // A violation in the last bytes shows when the answer to it (GOAWAY) has been taken.
  outcome.failed = outcome.failed || !session.receive({}).ok();
  for (const std::int32_t id : ids) {
    const net::Http2Incoming& incoming = *session.find(id);
    net::GrpcReader reader(kWindow);
    reader.feed(incoming.body);
    for (;;) {
      auto message = reader.next();
      if (!message.ok() || !*message) break;
      outcome.messages.push_back(std::move(**message));
    }
    outcome.seen += std::to_string(incoming.status) + incoming.body + (incoming.complete ? "!" : "?");
    for (const net::HttpField& field : incoming.fields) outcome.seen += field.name + "=" + field.value + ";";
    (void)net::grpc_status({incoming.status, incoming.fields, {}}, "fuzz").ok();
    session.consume(id, incoming.body.size());
    session.forget(id);
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1U << 15));
  const Outcome whole = feed(bytes, bytes.size() + 1);
  const Outcome parts = feed(bytes, 1);
  ROTA_ASSERT(whole.failed == parts.failed, "the pieces in which bytes arrive changed whether they are accepted");
  if (!whole.failed) ROTA_ASSERT(whole == parts, "the pieces in which bytes arrive changed the responses");
  return 0;
}
