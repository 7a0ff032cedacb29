// Feeds arbitrary bytes to the line protocol, whole and in two pieces: both must give the same lines and errors.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/assert.h"
#include "worker/lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota;
  using namespace rota::worker;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<Result<Line>> whole;
  std::vector<Result<Line>> cut;
  LineReader first;
  LineReader second;
  const auto into = [](std::vector<Result<Line>>& to) { return [&to](Result<Line> l) { to.push_back(std::move(l)); }; };
  first.feed(text, into(whole));
  first.finish(into(whole));
  second.feed(text.substr(0, size / 2), into(cut));
  second.feed(text.substr(size / 2), into(cut));
  second.finish(into(cut));
  ROTA_ASSERT(whole.size() == cut.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ROTA_ASSERT(whole[i].ok() == cut[i].ok());
    if (whole[i].ok()) {
      ROTA_ASSERT(*whole[i] == *cut[i]);
      ROTA_ASSERT(whole[i]->permille <= 1000);
    }
  }
  return 0;
}
