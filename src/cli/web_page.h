// WebPage: the dashboard of a host in this process, for the user who started it: `rota run --web`, `rota view`.
//
// It listens on loopback, with a token of its own that is part of the address and ends with the process. The token is
// in the fragment of the address, which a browser does not send and does not log.
//
// Thread safety: run() once; everything else from any task.
#pragma once

#include <memory>
#include <string>

#include "host/host.h"
#include "host/http_door.h"
#include "ledger/ledger.h"
#include "rota/result.h"

namespace rota::cli {

class WebPage {
 public:
  // `port` 0: a free one. REQUIRES: the host has a follower; both outlive it.
  static Result<std::unique_ptr<WebPage>> open(host::Host& host, ledger::Ledger& ledger, std::int64_t port);
  ~WebPage();
  WebPage(const WebPage&) = delete;
  WebPage& operator=(const WebPage&) = delete;

  // Serves until close() or until the task is cancelled.
  void run() { door_->run(); }
  void close() { door_->close(); }
  // "http://127.0.0.1:41234/#token=..."
  [[nodiscard]] std::string url() const;

 private:
  WebPage() = default;
  std::string folder_;  // For the token; removed at the end.
  std::string token_;
  std::unique_ptr<host::HttpDoor> door_;
};

}  // namespace rota::cli
