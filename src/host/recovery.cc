#include "host/recovery.h"

#include <optional>
#include <utility>
#include <vector>

#include "fleet/codec.h"

namespace rota::host {

namespace {

constexpr std::string_view kMagic = "rota host 2\n";
constexpr std::size_t kReadRecords = 10'000;

}  // namespace

Result<Recovered> decode_snapshot(const ledger::Snapshot& snapshot) {
  const std::string_view bytes = snapshot.bytes;
  const Error corrupt{ErrorCode::kCorrupt, "the snapshot after record " + std::to_string(snapshot.index) +
                                               " is not a snapshot of this version of the host"};
  if (!bytes.starts_with(kMagic)) return corrupt;
  model::Decoder decoder(bytes.substr(kMagic.size()));
  Recovered recovered;
  std::string_view rest;
  if (!decoder.read(recovered.position.chain) || !decoder.raw(decoder.left(), rest)) return corrupt;
  ROTA_TRY_ASSIGN(recovered.brain, fleet::Brain::restore(rest));
  const fleet::Globals& globals = recovered.brain.state().globals();
  if (globals.index != snapshot.index) return corrupt;
  recovered.position.index = globals.index;
  recovered.position.term = recovered.brain.term();
  recovered.position.logical = globals.logical;
  recovered.position.post = recovered.brain.hash();
  return recovered;
}

std::string encode_snapshot(const fleet::Brain& brain, const Hash128& chain) {
  std::string bytes(kMagic);
  model::encode(chain, bytes);
  bytes += brain.snapshot();
  return bytes;
}

Result<Recovered> recover(ledger::Ledger& ledger) {
  Recovered recovered;
  ROTA_TRY_ASSIGN(const std::optional<ledger::Snapshot> snapshot, ledger.latest_snapshot());
  if (snapshot) {
    ROTA_TRY_ASSIGN(recovered, decode_snapshot(*snapshot));
  }
  const std::uint64_t last = ledger.last_index();
  while (recovered.position.index < last) {
    ROTA_TRY_ASSIGN(const std::vector<ledger::RecordBytes> records,
                    ledger.read(recovered.position.index + 1, kReadRecords));
    if (records.empty()) {
      return Error{ErrorCode::kCorrupt, "the ledger has no record " + std::to_string(recovered.position.index + 1) +
                                            ", although its last record is " + std::to_string(last)};
    }
    for (const ledger::RecordBytes& bytes : records) {
      ROTA_TRY_ASSIGN(const fleet::Record record, fleet::decode_record(bytes.bytes, recovered.position));
      ROTA_TRY(recovered.brain.apply(record));
    }
  }
  return recovered;
}

}  // namespace rota::host
