#include "worker/output_stream.h"

#include <algorithm>
#include <utility>

namespace rota::worker {

using std::chrono::nanoseconds;

void OutputStream::feed(bool from_stderr, std::string_view bytes, nanoseconds now) {
  if (!std::exchange(begun_, true)) room_at_ = now;
  // Within a second it is full, so the product stays small.
  const auto passed = static_cast<std::uint64_t>(std::clamp<std::int64_t>((now - room_at_).count(), 0, 1'000'000'000));
  if (const std::uint64_t more = passed * kBytesASecond / 1'000'000'000; more > 0) {
    room_ = std::min(kBytesASecond, room_ + more);
    room_at_ = now;
  }
  if (dropping_ && room_ >= kGoodPiece) dropping_ = false;
  Lane& lane = lanes_[from_stderr ? 1 : 0];
  const std::size_t take = dropping_ ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(room_, bytes.size()));
  if (take > 0) {
    if (lane.waiting.empty()) lane.due = now + kAfter;
    lane.waiting.append(bytes.substr(0, take));
    room_ -= take;
  }
  if (lane.waiting.size() >= kChunkBytes) tell(from_stderr);
  if (take == bytes.size()) return;
  dropping_ = true;
  if (!lane.waiting.empty()) tell(from_stderr);  // What is dropped comes after it.
  lane.dropped += bytes.size() - take;
}

nanoseconds OutputStream::due() const { return std::min(lanes_[0].due, lanes_[1].due); }

void OutputStream::tell_due(nanoseconds now) {
  for (const bool from_stderr : {false, true}) {
    if (lanes_[from_stderr ? 1 : 0].due <= now) tell(from_stderr);
  }
}

void OutputStream::finish() {
  for (const bool from_stderr : {false, true}) {
    const Lane& lane = lanes_[from_stderr ? 1 : 0];
    if (!lane.waiting.empty() || lane.dropped > 0) tell(from_stderr);
  }
}

void OutputStream::tell(bool from_stderr) {
  Lane& lane = lanes_[from_stderr ? 1 : 0];
  lane.due = nanoseconds::max();
  tell_(from_stderr, std::exchange(lane.waiting, {}), std::exchange(lane.dropped, 0));
}

}  // namespace rota::worker
