#include "host/file_uploads.h"

#include <algorithm>
#include <vector>

#include "rota/fiber/blocking.h"
#include "rota/fiber/time.h"

namespace rota::host {

std::size_t FileUploads::open() {
  const sync::MutexLock lock(mutex_);
  return open_.size();
}

void FileUploads::close_idle(std::chrono::nanoseconds idle) {
  std::vector<std::unique_ptr<net::FileWriter>> closed;  // Without the lock.
  const std::chrono::nanoseconds now = fiber::now();
  const sync::MutexLock lock(mutex_);
  for (auto at = open_.begin(); at != open_.end();) {
    const bool old = at->second.writer != nullptr && now - at->second.used > idle;
    if (old) closed.push_back(std::move(at->second.writer));
    at = old ? open_.erase(at) : std::next(at);
  }
}

Result<std::unique_ptr<net::FileWriter>> FileUploads::take(const std::string& sha256, std::uint64_t bytes) {
  close_idle(kIdle);
  std::vector<std::unique_ptr<net::FileWriter>> idle;  // Closed without the lock.
  std::unique_ptr<net::FileWriter> found;
  {
    const sync::MutexLock lock(mutex_);
    const auto known = open_.find(sha256);
    if (known != open_.end() && known->second.writer == nullptr) {
      return Error{ErrorCode::kWouldBlock, "another request writes the content " + sha256 + " now; try again"};
    }
    if (known != open_.end()) {
      found = std::move(known->second.writer);
    } else {
      if (open_.size() >= kMostOpen) {
        auto oldest = open_.end();
        for (auto at = open_.begin(); at != open_.end(); ++at) {
          if (at->second.writer != nullptr && (oldest == open_.end() || at->second.used < oldest->second.used))
            oldest = at;
        }
        if (oldest == open_.end()) {
          return Error{ErrorCode::kOverloaded, "too many files are being uploaded at the same time; try again"};
        }
        idle.push_back(std::move(oldest->second.writer));
        open_.erase(oldest);
      }
      open_.emplace(sha256, Open{});
    }
  }
  if (found != nullptr && found->bytes() == bytes) return found;
  found.reset();
  idle.clear();  // What they had reserved is free again.
  Result<std::unique_ptr<net::FileWriter>> opened = fiber::blocking([&]() -> Result<std::unique_ptr<net::FileWriter>> {
    ROTA_TRY_ASSIGN(net::FileWriter writer, store_.write(sha256, bytes));
    return std::make_unique<net::FileWriter>(std::move(writer));
  });
  if (!opened.ok()) put_back(sha256, nullptr);
  return opened;
}

void FileUploads::put_back(const std::string& sha256, std::unique_ptr<net::FileWriter> writer) {
  const sync::MutexLock lock(mutex_);
  if (writer == nullptr) {
    open_.erase(sha256);
  } else {
    open_[sha256] = {std::move(writer), fiber::now()};
  }
}

Result<std::uint64_t> FileUploads::write(net::FileWriter& writer, std::uint64_t offset, std::string_view piece) {
  if (writer.is_stored()) return writer.bytes();
  if (!piece.empty() && offset != writer.position()) {
    return Error{ErrorCode::kConflict, "the next byte of this content is number " + std::to_string(writer.position()) +
                                           ", not " + std::to_string(offset)}
        .with("offset", std::to_string(writer.position()));
  }
  ROTA_TRY(writer.append(piece));
  if (writer.position() == writer.bytes()) ROTA_TRY(writer.finish());
  return writer.position();
}

Result<std::uint64_t> FileUploads::put(const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                                       std::string_view piece) {
  ROTA_TRY_ASSIGN(std::unique_ptr<net::FileWriter> writer, take(sha256, bytes));
  Result<std::uint64_t> position = fiber::blocking([&] { return write(*writer, offset, piece); });
  // A request without a piece only asks; a writer that has bytes already is kept, as its SHA-256 was computed.
  const bool asked = piece.empty() && writer->position() == 0;
  const bool keep = !writer->is_stored() && !asked && (position.ok() || position.code() == ErrorCode::kConflict);
  if (!keep) writer.reset();
  put_back(sha256, std::move(writer));
  return position;
}

}  // namespace rota::host
