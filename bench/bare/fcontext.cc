// The second wall of P-1: Boost.Context's fcontext jump, the switch that Boost.Fiber and others stand on.
#include <boost/context/detail/fcontext.hpp>

#include "bare/threads.h"
#include "common/bench.h"

namespace {

namespace context = boost::context::detail;
using bench::Figures;

void bounce(context::transfer_t from) {
  for (;;) from = context::jump_fcontext(from.fctx, nullptr);
}

Figures run_yield(unsigned threads, std::uint64_t count) {
  constexpr std::size_t kStackBytes = 16 * 1024;
  const double ns = bench::measure([&] {
    return bench::on_threads(threads, [&](unsigned) {
      bench::Pages stack(kStackBytes);
      context::fcontext_t other = context::make_fcontext(stack.data() + kStackBytes, kStackBytes, bounce);
      for (std::uint64_t i = 0; i < count; ++i) other = context::jump_fcontext(other, nullptr).fctx;
    });
  });
  return {ns / static_cast<double>(2 * count)};
}
Figures run_channel(unsigned threads, std::uint64_t count) { return {2 * run_yield(threads, count)[0]}; }

}  // namespace

int main(int argc, char** argv) {
  static constexpr bench::Work kWorks[] = {
      {"yield", 10'000'000, run_yield},
      {"channel", 10'000'000, run_channel},
  };
  return bench::main_of(argc, argv, kWorks);
}
