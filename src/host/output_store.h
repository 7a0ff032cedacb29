// OutputStore: keeps what programs on other machines write, one file per attempt, as local workers do by themselves.
//
// The releaser hands over pieces and never waits: a piece for which the queue has no room is dropped, and the file says
// so. The number of bytes kept per attempt is bounded. Each piece has its place in the file, so that one that comes
// twice or late, after a restart of the host, changes nothing.
//
// Thread safety: offer() from one task at a time; run() once; close() from any task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "model/message.h"
#include "rota/fiber/channel.h"
#include "rota/model/ids.h"

namespace rota::host {

class OutputStore {
 public:
  static constexpr std::size_t kQueue = 1024;         // Pieces.
  static constexpr std::size_t kMostAttempts = 4096;  // Attempts whose sizes are remembered.

  // `directory` must exist.
  OutputStore(std::string directory, std::uint64_t most_bytes);

  void offer(const model::AttemptId& id, const model::Output& output);
  // Writes until close().
  void run();
  void close() { pieces_.close(); }

  // The file of an attempt, in the directory: "<task>-<attempt>.log".
  [[nodiscard]] static std::string file_name(const model::AttemptId& id);

 private:
  struct Piece {
    model::AttemptId id{};
    std::string bytes{};
    std::uint64_t position = 0;
  };
  void write(Piece piece);
  static void write_at(const std::string& path, std::uint64_t position, const std::string& bytes);

  const std::string directory_;
  const std::uint64_t most_bytes_;
  fiber::Channel<Piece> pieces_{kQueue};
  std::map<model::AttemptId, std::uint64_t> sizes_;  // run()'s: how far each file is written.
};

}  // namespace rota::host
