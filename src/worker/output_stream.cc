#include "worker/output_stream.h"

#include <algorithm>
#include <utility>

namespace rota::worker {

using std::chrono::nanoseconds;

void OutputStream::feed(bool from_stderr, std::string_view bytes, nanoseconds now) {
  if (!std::exchange(begun_, true)) room_at_ = now;
  // After one second the room is full, so the product cannot overflow.
  const auto passed = static_cast<std::uint64_t>(std::clamp<std::int64_t>((now - room_at_).count(), 0, 1'000'000'000));
  if (const std::uint64_t more = passed * kBytesPerSecond / 1'000'000'000; more > 0) {
    room_ = std::min(kBytesPerSecond, room_ + more);
    room_at_ = now;
  }
  if (dropping_ && room_ >= kResumeBytes) {
    dropping_ = false;
    for (const bool which : {false, true}) {
      room_ -= std::min<std::uint64_t>(room_, lanes_[which ? 1 : 0].tail.size());
      send_tail(which);
    }
  }
  Lane& lane = lanes_[from_stderr ? 1 : 0];
  const std::size_t take = dropping_ ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(room_, bytes.size()));
  if (take > 0) {
    if (lane.buffered.empty()) lane.due = now + kAfter;
    lane.buffered.append(bytes.substr(0, take));
    room_ -= take;
  }
  if (lane.buffered.size() >= kChunkBytes) send(from_stderr);
  if (take == bytes.size()) return;
  dropping_ = true;
  if (!lane.buffered.empty()) send(from_stderr);  // The bytes that are held back come after these.
  lane.tail.append(bytes.substr(take));
  if (lane.tail.size() <= 2 * kTailBytes) return;
  lane.dropped += lane.tail.size() - kTailBytes;
  lane.tail.erase(0, lane.tail.size() - kTailBytes);
}

nanoseconds OutputStream::due() const { return std::min(lanes_[0].due, lanes_[1].due); }

void OutputStream::send_due(nanoseconds now) {
  for (const bool from_stderr : {false, true}) {
    if (lanes_[from_stderr ? 1 : 0].due <= now) send(from_stderr);
  }
}

void OutputStream::finish() {
  for (const bool from_stderr : {false, true}) {
    if (!lanes_[from_stderr ? 1 : 0].buffered.empty()) send(from_stderr);
    send_tail(from_stderr);
  }
}

void OutputStream::send_tail(bool from_stderr) {
  Lane& lane = lanes_[from_stderr ? 1 : 0];
  if (lane.tail.empty()) return;
  lane.buffered = std::exchange(lane.tail, {});
  send(from_stderr);
}

void OutputStream::send(bool from_stderr) {
  Lane& lane = lanes_[from_stderr ? 1 : 0];
  lane.due = nanoseconds::max();
  send_(from_stderr, std::exchange(lane.buffered, {}), std::exchange(lane.dropped, 0));
}

}  // namespace rota::worker
