#include "worker/output.h"

#include <algorithm>
#include <span>
#include <utility>

namespace rota::worker {

namespace {
constexpr std::size_t kWriteBytes = 32 * 1024;
}

KeptOutput::KeptOutput(std::string path, std::uint64_t limit_bytes)
    : path_(std::move(path)),
      head_bytes_(std::max(limit_bytes, kLeastBytes) / 2),
      tail_bytes_(std::max(limit_bytes, kLeastBytes) - head_bytes_) {}

void KeptOutput::append(std::string_view bytes) {
  pending_ += bytes;
  if (pending_.size() >= kWriteBytes) flush();
}

void KeptOutput::flush() {
  std::string_view left = pending_;
  while (!left.empty()) {
    // Up to the end of the head, or of the ring.
    std::uint64_t room = 0;
    if (total_ < head_bytes_) {
      room = head_bytes_ - total_;
    } else {
      room = tail_bytes_ - (total_ - head_bytes_) % tail_bytes_;
    }
    const std::string_view piece = left.substr(0, std::min<std::uint64_t>(room, left.size()));
    write(piece);
    total_ += piece.size();
    left.remove_prefix(piece.size());
  }
  pending_.clear();
}

void KeptOutput::write(std::string_view bytes) {
  if (!written_.ok()) return;
  if (!file_.is_open()) {
    Result<fiber::File> file =
        fiber::File::open(path_, {.read = true, .write = true, .create = true, .truncate = true, .mode = 0644});
    if (!file.ok()) {
      written_ = std::move(file).take_error();
      return;
    }
    file_ = std::move(*file);
  }
  const std::uint64_t offset = total_ < head_bytes_ ? total_ : head_bytes_ + (total_ - head_bytes_) % tail_bytes_;
  written_ = file_.write_all_at(bytes, offset);
}

Result<void> KeptOutput::put_in_order() {
  std::string ring(tail_bytes_, '\0');
  ROTA_TRY_ASSIGN(const std::size_t size, file_.read_at(std::as_writable_bytes(std::span(ring)), head_bytes_));
  if (size != ring.size()) return Error{ErrorCode::kDataLoss, path_ + " is shorter than what was written to it"};
  std::rotate(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>((total_ - head_bytes_) % tail_bytes_),
              ring.end());
  const std::string notice = "\n[rota: " + std::to_string(total_ - head_bytes_ - tail_bytes_) +
                             " bytes of output were dropped here; the first " + std::to_string(head_bytes_) +
                             " and the last " + std::to_string(tail_bytes_) + " bytes are kept]\n";
  return file_.write_all_at(notice + ring, head_bytes_);
}

KeptOutput::Summary KeptOutput::finish() {
  flush();
  Summary summary;
  summary.total_bytes = total_;
  const std::uint64_t limit = head_bytes_ + tail_bytes_;
  if (total_ > limit) {
    summary.dropped_bytes = total_ - limit;
    if (written_.ok()) written_ = put_in_order();
  }
  Result<void> closed = file_.is_open() ? file_.close() : Result<void>();
  if (written_.ok()) written_ = std::move(closed);
  summary.written = std::move(written_);
  written_ = {};
  return summary;
}

void LastLine::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    const std::size_t room = longest_ - current_.size();
    if (piece.size() > room) current_too_long_ = true;
    current_ += piece.substr(0, room);
    if (end == std::string_view::npos) return;
    if (!current_.empty() && current_.back() == '\r') current_.pop_back();
    if (!current_.empty()) {
      std::swap(last_, current_);
      last_too_long_ = current_too_long_;
    }
    current_.clear();
    current_too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

std::string_view LastLine::line() const {
  if (too_long()) return {};
  return current_.empty() ? last_ : current_;
}

}  // namespace rota::worker
