// EtcdAccess: how a command reaches the etcd servers that keep a replicated log, and the connection to them.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <string>

#include "ledger/etcd_store.h"
#include "net/stream.h"
#include "net/tls.h"
#include "rota/fiber/nursery.h"
#include "rota/result.h"

namespace rota::cli {

struct EtcdAccess {
  std::string urls{};  // URL,URL,URL
  std::string prefix = "rota/";
  std::string ca{};  // PEM files, for https://; without `ca`, the system's CAs are trusted.
  std::string certificate{};
  std::string key{};

  // From ROTA_ETCD_PREFIX, ROTA_ETCD_CA, ROTA_ETCD_CERT and ROTA_ETCD_KEY.
  static EtcdAccess from_environment(std::string urls);
  // InvalidArgument with a sentence if something does not fit together.
  [[nodiscard]] Result<void> check() const;
};

class EtcdConnection {
 public:
  // Connects in the background, in tasks of the nursery, which this object outlives: the tasks use its network until
  // they have ended. Call close() before the nursery ends. Errors as EtcdAccess::check(), and those of the files.
  static Result<std::unique_ptr<EtcdConnection>> open(const EtcdAccess& access, fiber::Nursery& nursery);
  [[nodiscard]] ledger::kv::EtcdStore& store() { return *store_; }
  void close() { store_.reset(); }

 private:
  std::shared_ptr<net::TlsContext> tls_;
  std::unique_ptr<net::TlsNetwork> network_;
  std::unique_ptr<ledger::kv::EtcdStore> store_;
};

}  // namespace rota::cli
