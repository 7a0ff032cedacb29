// The cost of bytes between two tasks: a round trip of 100 bytes, bulk in writes of 64 KiB, and a connection; plain,
// with TLS 1.3, over TCP and Unix sockets, and over the simulated network (whose time is virtual: what counts is the
// CPU).
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "net/sim_network.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/tls_testing.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

enum class Kind : std::uint8_t { kTcp, kUnix, kTlsTcp, kSimulated, kTlsSimulated };

bool is_simulated(Kind kind) { return kind == Kind::kSimulated || kind == Kind::kTlsSimulated; }

// A network of one kind, with a listener.
struct Place {
  explicit Place(Kind kind) {
    Network* network = &real_network();
    if (is_simulated(kind)) network = &sim.emplace().node("b");
    if (kind == Kind::kTlsTcp || kind == Kind::kTlsSimulated) {
      const testing::TestCa ca("CA", testing::KeyKind::kP256);
      const testing::Identity leaf = ca.issue({.key = testing::KeyKind::kP256});
      tls.emplace(*network, TlsContext::client({.ca = ca.source()}).value(),
                  TlsContext::server(testing::server_options(leaf, ca)).value());
      network = &*tls;
    }
    used = network;
    const std::string path = "@rota_bench_" + std::to_string(getpid());
    listener = network
                   ->listen(kind == Kind::kUnix  ? Endpoint{.unix_path = path}
                            : is_simulated(kind) ? Endpoint{.host = "b"}
                                                 : Endpoint{.host = "127.0.0.1"})
                   .value();
  }
  std::optional<SimNetwork> sim{};
  std::optional<TlsNetwork> tls{};
  Network* used = nullptr;
  std::unique_ptr<Listener> listener{};
};

// Runs body(stream) against a server that runs serve(stream) for each connection.
template <class Serve, class Body>
void against(Kind kind, Serve&& serve, Body&& body) {
  fiber::Config config{.worker_count = 1};
  if (is_simulated(kind)) config.deterministic_seed = 1;
  fiber::Runtime runtime(config);
  runtime.run([&] {
    Place place(kind);
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        fiber::with_scope([&](fiber::Nursery& sessions) {
          for (;;) {
            auto stream = place.listener->accept({});
            if (!stream.ok()) return;
            sessions.launch([&serve, s = std::shared_ptr<ByteStream>(std::move(*stream))] { serve(*s); });
          }
        });
      });
      body(place);
      place.listener->close();
    });
  });
}

void echo(ByteStream& stream) {
  char buffer[100];
  while (stream.read_exactly(buffer, {}).ok()) {
    if (!stream.write_all({buffer, sizeof buffer}, {}).ok()) return;
  }
}

void swallow(ByteStream& stream) {
  std::string buffer(256 << 10, '\0');
  while (stream.read_some(buffer, {}).value_or(0) > 0) {
  }
}

void round_trip(benchmark::State& state, Kind kind) {
  against(kind, echo, [&](Place& place) {
    auto stream = place.used->connect(place.listener->endpoint(), {}).value();
    const std::string question(100, 'q');
    char answer[100];
    for (auto _ : state) {
      if (!stream->write_all(question, {}).ok() || !stream->read_exactly(answer, {}).ok()) {
        state.SkipWithError("the connection failed");
        break;
      }
    }
    stream->close();
  });
}

void bulk(benchmark::State& state, Kind kind) {
  const std::string block(64 << 10, 'b');
  against(kind, swallow, [&](Place& place) {
    auto stream = place.used->connect(place.listener->endpoint(), {}).value();
    for (auto _ : state) {
      if (!stream->write_all(block, {}).ok()) {
        state.SkipWithError("the connection failed");
        break;
      }
    }
    stream->close();
  });
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(block.size()));
}

void connection(benchmark::State& state, Kind kind) {
  against(kind, swallow, [&](Place& place) {
    for (auto _ : state) {
      auto stream = place.used->connect(place.listener->endpoint(), {}).value();
      (void)stream->shutdown_write({});
    }
  });
}

#define ROTA_STREAM_BENCH(what)                                        \
  BENCHMARK_CAPTURE(what, tcp, Kind::kTcp)->UseRealTime();             \
  BENCHMARK_CAPTURE(what, unix, Kind::kUnix)->UseRealTime();           \
  BENCHMARK_CAPTURE(what, tls_tcp, Kind::kTlsTcp)->UseRealTime();      \
  BENCHMARK_CAPTURE(what, simulated, Kind::kSimulated)->UseRealTime(); \
  BENCHMARK_CAPTURE(what, tls_simulated, Kind::kTlsSimulated)->UseRealTime()

ROTA_STREAM_BENCH(round_trip);
ROTA_STREAM_BENCH(bulk);
ROTA_STREAM_BENCH(connection);

}  // namespace
}  // namespace rota::net
