// Commands that nobody chose, one after the other: each is decided or refused, and everything that must hold holds.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fleet/brain.h"
#include "fleet/codec.h"
#include "fleet/frozen_log_test.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // This is the build with another compiler: the same log must have the same bytes (B-1).
  if (rota::fleet::play_frozen_log() == rota::fleet::kFrozenLog) return 0;
  std::fprintf(stderr, "the frozen log has other bytes in this build: %s\n", rota::fleet::play_frozen_log().c_str());
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota::fleet;
  Decoder decoder(std::string_view(reinterpret_cast<const char*>(data), size));
  Brain brain;
  Brain follower;
  std::int64_t now_ns = 1'000'000'000;
  Command start = RegisterWorker{RandomFleet(1, {}).worker(1), {}};
  for (int i = 0; i < 64; ++i) {
    if (brain.state().unfinished_tasks() > 2000) break;
    const auto record = brain.execute(start, now_ns);
    if (record.ok() && record->index != 0) {
      brain.check_invariants();
      if (!follower.apply(*record).ok()) std::abort();
    }
    std::uint32_t wait_ms = 0;
    if (decoder.left() == 0 || !decoder.read(wait_ms) || !decoder.read(start)) break;
    now_ns += std::int64_t{wait_ms} * 1'000'000;
  }
  return 0;
}
