// A numeric kernel beside a server's load (F-32). The benchmark row kernel_beside measures the loss; this shows the
// mechanism: neither displaces the other.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

std::uint32_t this_worker() { return detail::current_worker()->index; }

// Contract: F-32. A kernel that computes on one of two thread workers stays there, undisturbed, while a server echoes
// thousands of messages on the other; the server's load does not need the kernel to give way.
TEST(Beside, AKernelAndAServerShareTheCores) {
  static constexpr int kEchoes = 2'000;
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    const auto listener = std::make_shared<TcpListener>(TcpListener::bind("127.0.0.1", 0).value());
    std::atomic<int> echoes{0};
    std::set<std::uint32_t> kernel_on;
    std::set<std::uint32_t> server_on;
    std::atomic<bool> computes{false};
    double sum = 0;
    with_scope([&](Nursery& scope) {
      scope.launch([&] {  // The kernel: never waits, never yields.
        computes = true;
        const auto give_up = std::chrono::steady_clock::now() + 120s;
        for (double x = 1; echoes.load() < kEchoes && std::chrono::steady_clock::now() < give_up; ++x) {
          sum += 1 / (x * x);
          kernel_on.insert(this_worker());
        }
      });
      while (!computes.load()) yield();
      scope.launch([listener] {
        TcpStream peer = listener->accept().value();
        std::array<std::byte, 16> buffer{};
        while (peer.read_exactly(buffer).ok() && peer.write_all(buffer).ok()) {
        }
      });
      TcpStream peer = TcpStream::connect("127.0.0.1", listener->local_address().port(), 120s).value();
      std::array<std::byte, 16> buffer{};
      while (echoes.load() < kEchoes) {
        ASSERT_TRUE(peer.write_all(buffer).ok() && peer.read_exactly(buffer).ok());
        server_on.insert(this_worker());
        echoes.fetch_add(1);
      }
    });
    EXPECT_GE(echoes.load(), kEchoes);
    EXPECT_EQ(kernel_on.size(), 1U);
    EXPECT_EQ(server_on.size(), 1U);
    EXPECT_NE(kernel_on, server_on);
    EXPECT_LT(sum, 1.65);
  });
}

}  // namespace
}  // namespace rota::fiber
