// HostStore: the store of files at the host (U-6), as a worker that joined with --host uses it.
//
// One request per piece (docs/api.md: putFile, getFile), over connections that are kept. Of several URLs it uses the
// first that answers. Nothing is tried again here: TaskFiles does that.
//
// Thread safety: all functions, from tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/sync.h"
#include "cli/worker_identity.h"
#include "net/http_client.h"
#include "net/tls.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::cli {

class HostStore {
 public:
  // REQUIRES: the identity outlives it.
  static Result<std::shared_ptr<HostStore>> open(const CurrentIdentity& identity);
  ~HostStore();
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  // As rota::FileSources describes them.
  Result<std::uint64_t> put(const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                            std::string_view piece);
  Result<std::string> get(const std::string& sha256, std::uint64_t offset, std::size_t most);
  Result<void> check(const std::string& sha256);

 private:
  explicit HostStore(const CurrentIdentity& identity) : identity_(identity) {}
  Result<net::HttpResponse> ask(net::HttpClientRequest request);

  const CurrentIdentity& identity_;
  std::vector<net::Endpoint> endpoints_{};
  std::shared_ptr<net::TlsContext> tls_{};
  std::unique_ptr<net::TlsNetwork> network_{};
  sync::Mutex mutex_;
  std::size_t chosen_ ROTA_GUARDED_BY(mutex_) = 0;                                // Of the endpoints.
  std::vector<std::unique_ptr<net::HttpClient>> free_ ROTA_GUARDED_BY(mutex_){};  // Connections to it.
};

// Lets the worker's files go to the host. REQUIRES: the store outlives the worker.
void use_host_store(FileSources& files, const std::shared_ptr<HostStore>& store);

}  // namespace rota::cli
