// libFuzzer: no bytes crash the reader of replies; how they are cut into pieces changes nothing; and a reply that it
// accepts is read again from append_reply()'s bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/resp.h"
#include "rota/assert.h"

namespace {

using rota::net::RespReader;
using rota::net::RespValue;

struct Outcome {
  std::vector<RespValue> values;
  bool failed = false;
  bool operator==(const Outcome&) const = default;
};

Outcome read_all(std::string_view bytes, std::size_t piece) {
  RespReader reader({.reply_bytes = 1 << 16, .reply_values = 1000});
  Outcome outcome;
  while (!bytes.empty() && !outcome.failed) {
    const std::size_t size = std::min(piece, bytes.size());
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
    for (;;) {
      auto value = reader.next();
      if (!value.ok()) outcome.failed = true;
      if (!value.ok() || !*value) break;
      outcome.values.push_back(std::move(**value));
    }
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1 << 15));
  const Outcome whole = read_all(bytes, bytes.size() + 1);
  ROTA_ASSERT(read_all(bytes, 1).values == whole.values, "the pieces in which a reply arrives changed it");
  std::string again;
  for (const RespValue& value : whole.values) rota::net::append_reply(again, value);
  ROTA_ASSERT(read_all(again, again.size() + 1).values == whole.values, "a reply did not survive its encoding");
  return 0;
}
