#include "host/output_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
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
  (void)pieces_.try_send({id, output.bytes, output.position});
}

void OutputStore::run() {
  try {
    while (std::optional<Piece> piece = pieces_.receive()) write(std::move(*piece));
  } catch (const fiber::Cancelled&) {
  }
}

void OutputStore::write(Piece piece) {
  const std::string path = directory_ + "/" + file_name(piece.id);
  if (sizes_.size() >= kMostAttempts && !sizes_.contains(piece.id)) sizes_.erase(sizes_.begin());
  const auto [found, is_new] = sizes_.try_emplace(piece.id, 0);
  std::uint64_t& size = found->second;
  if (is_new) {  // An earlier host may have written a part.
    std::error_code none;
    const std::uintmax_t there = std::filesystem::file_size(path, none);
    if (!none) size = std::min<std::uint64_t>(there, most_bytes_);
  }
  if (piece.position >= most_bytes_) return;
  const bool cut = piece.bytes.size() > most_bytes_ - piece.position;
  if (cut) piece.bytes.resize(most_bytes_ - piece.position);
  std::string text;
  std::uint64_t at = piece.position;
  if (at > size) {
    // What is missing may still come, into its place.
    const std::uint64_t gap = at - size;
    text = "\n[rota: " + std::to_string(gap) + " bytes of output were not kept]\n";
    text.resize(gap, '\n');
    at = size;
  }
  text += piece.bytes;
  size = std::max(size, at + text.size());
  if (cut) text += "\n[rota: the output is longer than host.output_most; the rest was not kept]\n";
  (void)fiber::blocking([&path, at, &text] { write_at(path, at, text); });
}

void OutputStore::write_at(const std::string& path, std::uint64_t position, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  bool written = fd >= 0;
  for (std::size_t at = 0; written && at < bytes.size();) {
    const ssize_t count = ::pwrite(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(position + at));
    if (count < 0 && errno == EINTR) continue;
    written = count > 0;
    if (written) at += static_cast<std::size_t>(count);
  }
  if (!written) ROTA_LOG(kWarn, "output not kept", {"file", path}, {"errno", errno});
  if (fd >= 0) ::close(fd);
}

}  // namespace rota::host
