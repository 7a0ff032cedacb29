// F-32: a numeric kernel beside a server's load. The kernel is a dense matrix product, cut into tasks that keep all
// thread workers but one busy; the load is one client and one server that echo over loopback without a pause, which
// keeps the remaining one busy. Alone, the kernel has the same number of tasks at a time, so it uses as many cores.
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "rota.h"

namespace {

namespace fiber = rota::fiber;
using bench::Figures;
using bench::now_ns;

constexpr std::size_t kTile = 32;

// c = a * b for matrices of n x n, in rows. The values are whole numbers, so the sum of c is exact.
class Product {
 public:
  explicit Product(std::size_t n) : n_(n), a_(n * n), b_(n * n), c_(n * n) {
    for (std::size_t i = 0; i < n * n; ++i) {
      a_[i] = static_cast<double>(i % 7);
      b_[i] = static_cast<double>(i % 5);
    }
  }
  [[nodiscard]] std::size_t strips() const { return n_ / kTile; }
  // The rows [strip * kTile, (strip + 1) * kTile) of c.
  void compute(std::size_t strip) {
    for (std::size_t i = strip * kTile; i < (strip + 1) * kTile; ++i) {
      double* row = &c_[i * n_];
      for (std::size_t j = 0; j < n_; ++j) row[j] = 0;
      for (std::size_t k = 0; k < n_; ++k) {
        const double factor = a_[i * n_ + k];
        const double* other = &b_[k * n_];
        for (std::size_t j = 0; j < n_; ++j) row[j] += factor * other[j];
      }
    }
  }
  [[nodiscard]] std::uint64_t sum() const {
    double total = 0;
    for (const double value : c_) total += value;
    return static_cast<std::uint64_t>(total);
  }

 private:
  std::size_t n_;
  std::vector<double> a_, b_, c_;
};

// The whole product, `at_once` tasks at a time; the time in nanoseconds.
double run_kernel(Product& product, unsigned at_once) {
  const std::uint64_t start = now_ns();
  std::atomic<std::size_t> next{0};
  fiber::with_scope([&](fiber::Nursery& scope) {
    for (unsigned i = 0; i < at_once; ++i) {
      scope.launch([&] {
        for (std::size_t strip = next.fetch_add(1); strip < product.strips(); strip = next.fetch_add(1)) {
          // A task of its own, as a library would have it; between two of them others have their turn.
          fiber::with_scope([&](fiber::Nursery& inner) { inner.launch([&] { product.compute(strip); }); });
          fiber::yield();
        }
      });
    }
  });
  return static_cast<double>(now_ns() - start);
}

// Echoes until `stop`, and counts.
void echo(fiber::Nursery& scope, const std::atomic<bool>& stop, std::atomic<std::uint64_t>& echoes) {
  auto listener = std::make_shared<fiber::TcpListener>(fiber::TcpListener::bind("127.0.0.1", 0).value());
  scope.launch([listener] {
    fiber::TcpStream peer = listener->accept().value();
    std::array<std::byte, 64> buffer{};
    while (peer.read_exactly(buffer).ok() && peer.write_all(buffer).ok()) {
    }
  });
  scope.launch([listener, &stop, &echoes] {
    using namespace std::chrono_literals;
    fiber::TcpStream peer = fiber::TcpStream::connect("127.0.0.1", listener->local_address().port(), 120s).value();
    std::array<std::byte, 64> buffer{};
    while (!stop.load() && peer.write_all(buffer).ok() && peer.read_exactly(buffer).ok()) ++echoes;
  });
}

Figures run_kernel_beside(unsigned threads, std::uint64_t size) {
  if (threads < 2) bench::fail("two threads or more: one of them is the server's");
  Product product((size + kTile - 1) / kTile * kTile);
  return bench::on_workers(threads, [&]() -> Figures {
    std::vector<double> alone_ns, beside_ns;
    std::atomic<std::uint64_t> echoes{0};
    for (int round = 0; round < 6; ++round) {  // In turns, because a shared machine drifts.
      const double alone = run_kernel(product, threads - 1);
      const std::uint64_t want = product.sum();
      std::atomic<bool> stop{false};
      double beside = 0;
      fiber::with_scope([&](fiber::Nursery& scope) {
        const std::uint64_t before = echoes.load();
        echo(scope, stop, echoes);
        while (echoes.load() == before) fiber::yield();  // The server has load from here on.
        beside = run_kernel(product, threads - 1);
        stop = true;
      });
      if (product.sum() != want) bench::fail("the product is wrong");
      if (round == 0) continue;  // To warm up.
      alone_ns.push_back(alone);
      beside_ns.push_back(beside);
    }
    if (echoes == 0) bench::fail("the server had no load");
    bench::expect(product.strips() * kTile, (size + kTile - 1) / kTile * kTile);
    const double alone = bench::median(alone_ns);
    const double beside = bench::median(beside_ns);
    return {beside / 1e6, std::max(0.0, (beside / alone - 1) * 100)};
  });
}

constexpr bench::Work kWorks[] = {{"kernel_beside", 512, run_kernel_beside}};

}  // namespace

std::span<const bench::Work> bench::rota_kernel_works() { return kWorks; }
