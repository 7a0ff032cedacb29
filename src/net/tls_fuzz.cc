// libFuzzer: whatever bytes a peer sends, a TLS stream ends with an error and never delivers bytes that were not sent.
//
// The first byte of the input chooses the role and the method: the rest is sent by the peer in place of a handshake, or
// is a list of changes (position, mask) to the bytes of a real peer.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/sim_network.h"
#include "net/tls.h"
#include "net/tls_testing.h"
#include "rota/assert.h"
#include "rota/fiber.h"

namespace {

using namespace rota;
using namespace rota::net;
using namespace std::chrono_literals;

struct Contexts {
  testing::TestCa ca{"CA"};
  std::shared_ptr<TlsContext> client = TlsContext::client({.ca = ca.source()}).value();
  std::shared_ptr<TlsContext> server = TlsContext::server(testing::server_options(ca.issue(), ca)).value();
};

Contexts& contexts() {
  static Contexts shared;
  return shared;
}

// A peer that sends fixed bytes in pieces and then ends, and reads everything.
class Script final : public ByteStream {
 public:
  Script(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}
  Result<std::size_t> read_some(std::span<char> buffer, Deadline) override {
    const std::size_t count = std::min({bytes_.size(), buffer.size(), piece_});
    std::copy_n(bytes_.data(), count, buffer.data());
    bytes_.remove_prefix(count);
    return count;
  }
  Result<void> write_all(std::string_view, Deadline) override { return {}; }
  Result<void> shutdown_write(Deadline) override { return {}; }
  void close() override {}
  [[nodiscard]] std::string peer() const override { return "the fuzzer"; }

 private:
  std::string_view bytes_;
  const std::size_t piece_;
};

Result<std::unique_ptr<TlsStream>> secure(std::unique_ptr<ByteStream> inner, bool as_client) {
  return as_client ? TlsStream::client(std::move(inner), *contexts().client, "b")
                   : TlsStream::server(std::move(inner), *contexts().server);
}

void send_bytes(std::string_view bytes, bool as_client, std::size_t piece) {
  auto stream = secure(std::make_unique<Script>(bytes, piece), as_client).value();
  char buffer[100];
  for (int i = 0; i < 2; ++i) {
    const Result<std::size_t> read = stream->read_some(buffer, {});
    ROTA_ASSERT(!read.ok(), "a peer without the key completed a handshake");
    ROTA_ASSERT(!read.error().message.empty(), "an error without a sentence");
  }
  ROTA_ASSERT(!stream->write_all("x", {}).ok(), "bytes were written to a peer without the key");
}

// Changes the bytes that are read.
class Changed final : public ByteStream {
 public:
  Changed(std::unique_ptr<ByteStream> inner, std::string_view changes) : inner_(std::move(inner)), changes_(changes) {}
  Result<std::size_t> read_some(std::span<char> buffer, Deadline deadline) override {
    Result<std::size_t> count = inner_->read_some(buffer, deadline);
    if (!count.ok()) return count;
    for (; changes_.size() >= 3; changes_.remove_prefix(3)) {
      const std::size_t position =
          static_cast<unsigned char>(changes_[0]) * 16U + static_cast<unsigned char>(changes_[1]);
      if (position >= at_ + *count) break;
      if (position >= at_) buffer[position - at_] = static_cast<char>(buffer[position - at_] ^ changes_[2]);
    }
    at_ += *count;
    return count;
  }
  Result<void> write_all(std::string_view bytes, Deadline deadline) override {
    return inner_->write_all(bytes, deadline);
  }
  Result<void> shutdown_write(Deadline deadline) override { return inner_->shutdown_write(deadline); }
  void close() override { inner_->close(); }
  [[nodiscard]] std::string peer() const override { return inner_->peer(); }

 private:
  const std::unique_ptr<ByteStream> inner_;
  std::string_view changes_;
  std::size_t at_ = 0;
};

void change_bytes(std::string_view changes, bool as_client) {
  const std::string message = "what the peer really sent, and nothing else";
  fiber::Runtime runtime({.worker_count = 1, .deterministic_seed = 1});
  runtime.run([&] {
    SimNetwork sim;
    auto listener = sim.node("b").listen({.host = "b"}).value();
    fiber::with_scope([&](fiber::Nursery& n) {
      const auto peer = [&](std::unique_ptr<ByteStream> inner, bool client) {
        auto stream = secure(std::move(inner), client).value();
        if (!stream->write_all(message, 10s).ok()) return;
        (void)stream->shutdown_write(10s);
        char buffer[100];
        while (stream->read_some(buffer, 10s).value_or(0) > 0) {
        }
      };
      std::unique_ptr<ByteStream> attacked;
      if (as_client) {
        n.launch([&] { peer(listener->accept({}).value(), false); });
        attacked = sim.node("a").connect(listener->endpoint(), {}).value();
      } else {
        n.launch([&] { peer(sim.node("a").connect(listener->endpoint(), {}).value(), true); });
        attacked = listener->accept({}).value();
      }
      auto stream = secure(std::make_unique<Changed>(std::move(attacked), changes), as_client).value();
      std::string got;
      for (;;) {
        char buffer[10];
        const Result<std::size_t> read = stream->read_some(buffer, 10s);
        if (!read.ok()) break;
        if (*read == 0) {
          ROTA_ASSERT(got == message, "a stream ended cleanly before its end");
          break;
        }
        got.append(buffer, *read);
      }
      ROTA_ASSERT(message.starts_with(got), "bytes that nobody sent were delivered");
      stream->close();
    });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool as_client = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) {
    change_bytes(rest, as_client);
  } else {
    send_bytes(rest, as_client, std::size_t{1} << (data[0] >> 4));
  }
  return 0;
}
