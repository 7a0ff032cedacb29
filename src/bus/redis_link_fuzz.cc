// libFuzzer: no bytes crash the decoder of frames, a frame that it accepts encodes to the same bytes, and no sequence
// of frames breaks a link or makes it deliver more than the frames contain.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bus/redis_link.h"
#include "rota/assert.h"

namespace {

// With a right version and checksum before it, so that what follows is decoded.
std::string sealed(std::string_view bytes) {
  std::string entry(rota::bus::kFrameHeadBytes, '\0');
  entry += bytes;
  rota::bus::seal_frame(entry);
  return entry;
}

using namespace rota::bus;

void play(Link::Role role, std::string_view bytes) {
  Link link(role, 2, {.messages = 8, .bytes = 1000});
  Link::Time now{0};
  std::uint64_t id = 0;
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(static_cast<unsigned char>(bytes.front()), bytes.size() - 1);
    rota::Result<Frame> frame = decode_frame(sealed(bytes.substr(1, size)));
    bytes.remove_prefix(size + 1);
    now += std::chrono::milliseconds(300);
    if (!frame.ok()) {
      link.skip({1, ++id});
      continue;
    }
    const std::size_t contained = frame->messages.size();
    const Link::Received received = link.receive({1, ++id}, std::move(*frame), now);
    ROTA_ASSERT(received.messages.size() <= contained, "a link delivered more than it received");
    if (!received.messages.empty() && id % 2 == 0) link.acknowledge(received.messages.back().serial, now);
    if (link.has_room(3)) link.push("abc", now);
    (void)link.tick(now);
    for (const Link::Write& write : link.take_writes(now, 100)) {
      link.written(id % 5 == 0 ? Link::WriteResult::kIdTooLow : Link::WriteResult::kWritten,
                   StreamId::parse(write.id).value_or(StreamId{id, 0}));
    }
    if (id % 7 == 0) link.connection_lost();
    (void)link.take_written_trim(1);
    (void)link.take_read_trim(1);
    ROTA_ASSERT(link.unacknowledged() <= 8, "a link keeps more than its bound");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)decode_frame(bytes);
  if (const auto frame = decode_frame(sealed(bytes)); frame.ok()) {
    ROTA_ASSERT(encode_frame(*frame) == sealed(bytes), "a frame has two encodings");
  }
  play(Link::Role::kHost, bytes);
  play(Link::Role::kWorker, bytes);
  return 0;
}
