#include "host/output_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/log.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/error.h"

namespace rota::host {

OutputStore::OutputStore(std::string directory, std::uint64_t most_bytes)
    : directory_(std::move(directory)), most_bytes_(most_bytes) {}

std::string OutputStore::file_name(const model::AttemptId& id) {
  return std::to_string(id.task.value()) + "-" + std::to_string(id.attempt.value()) + ".log";
}

void OutputStore::offer(const model::AttemptId& id, const model::Output& output) {
  Piece piece{id, output.bytes, output.dropped_bytes};
  if (const auto missed = missed_.find(id); missed != missed_.end()) piece.dropped_bytes += missed->second;
  const std::uint64_t bytes = piece.dropped_bytes + piece.bytes.size();
  if (pieces_.try_send(std::move(piece)).ok()) {
    missed_.erase(id);
    return;
  }
  if (missed_.size() >= kMostAttempts) missed_.erase(missed_.begin());
  missed_[id] = bytes;
}

void OutputStore::run() {
  try {
    while (std::optional<Piece> piece = pieces_.receive()) write(std::move(*piece));
  } catch (const fiber::Cancelled&) {
  }
}

void OutputStore::write(Piece piece) {
  if (sizes_.size() >= kMostAttempts && !sizes_.contains(piece.id)) sizes_.erase(sizes_.begin());
  std::uint64_t& size = sizes_[piece.id];
  const auto note = [](std::uint64_t bytes) {
    return "\n[rota: " + std::to_string(bytes) + " bytes of output were not kept]\n";
  };
  std::string text;
  if (piece.dropped_bytes > 0) text += note(piece.dropped_bytes);
  if (size < most_bytes_ && size + piece.bytes.size() > most_bytes_) {
    piece.bytes.resize(most_bytes_ - size);
    text += piece.bytes + "\n[rota: the output is longer than host.output_most; the rest was not kept]\n";
    size = most_bytes_;
  } else if (size < most_bytes_) {
    size += piece.bytes.size();
    text += piece.bytes;
  } else {
    return;
  }
  (void)fiber::blocking([path = directory_ + "/" + file_name(piece.id), &text] { append(path, text); });
}

void OutputStore::append(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  bool written = fd >= 0;
  for (std::size_t at = 0; written && at < bytes.size();) {
    const ssize_t count = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    written = count > 0;
    if (written) at += static_cast<std::size_t>(count);
  }
  if (!written) ROTA_LOG(kWarn, "output not kept", {"file", path}, {"errno", errno});
  if (fd >= 0) ::close(fd);
}

}  // namespace rota::host
