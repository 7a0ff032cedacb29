// libFuzzer: no bytes crash the decoders of etcd's messages or of the ledger's values in etcd.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ledger/etcd_format.h"
#include "ledger/etcd_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace kv = rota::ledger::kv;
  namespace detail = rota::ledger::detail;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)kv::decode_range(bytes).ok();
  (void)kv::decode_txn(bytes).ok();
  (void)kv::decode_lease(bytes).ok();
  (void)kv::decode_watch(bytes).ok();
  kv::KeyValue value;
  value.value = bytes;
  (void)detail::decode_head(value).ok();
  (void)detail::decode_base(value).ok();
  (void)detail::decode_snapshot(value).ok();
  (void)detail::decode_batch(value).ok();
  (void)detail::EtcdKeys::index_of("log/", bytes).ok();
  return 0;
}
