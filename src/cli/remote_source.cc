// The log of a host that is reached over HTTP: LogSource::open() of a URL. Every record is checked as it is read, as in
// a local ledger.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/log_source.h"
#include "cli/remote_host.h"
#include "fleet/stored_record.h"
#include "host/http_log.h"
#include "host/recovery.h"

namespace rota::cli {

namespace {

constexpr int kWaitSeconds = 20;
constexpr int kTries = 3;

class RemoteSource final : public LogSource {
 public:
  explicit RemoteSource(std::shared_ptr<RemoteHost> host) : host_(std::move(host)) {}

  Result<fleet::Brain> begin() override {
    begun_ = true;
    // The host may compact the log between two requests.
    for (int attempt = 1;; ++attempt) {
      Result<fleet::Brain> brain = try_begin();
      if (brain.ok() || brain.code() != ErrorCode::kClosed || attempt == kTries) return brain;
    }
  }
  [[nodiscard]] std::uint64_t compacted() const override { return compacted_; }

  Result<const fleet::Record*> next() override {
    if (at_ == records_.size()) {
      if (position_.index >= last_) return static_cast<const fleet::Record*>(nullptr);
      ROTA_TRY(fetch(0));
      if (records_.empty()) return static_cast<const fleet::Record*>(nullptr);
    }
    Result<fleet::Record> record = fleet::decode_record(records_[at_], position_);
    if (!record.ok()) return std::move(record).take_error().in(host_->url());
    ++at_;
    record_ = std::move(*record);
    return static_cast<const fleet::Record*>(&record_);
  }

  Result<void> refresh() override { return begun_ && at_ == records_.size() ? fetch(0) : Result<void>(); }
  Result<void> wait() override { return at_ == records_.size() ? fetch(kWaitSeconds) : Result<void>(); }
  void keep_trying(const std::function<void(const std::string& text)>& say) override { host_->keep_trying(say); }
  [[nodiscard]] int permille() const override {
    return last_ == 0 ? 1000 : static_cast<int>(std::min(position_.index, last_) * 1000 / last_);
  }

  Result<const fleet::Record*> find(std::uint64_t index) override {
    Result<net::HttpResponse> response = host_->ask({.target = "/v1/log?limit=1&from=" + std::to_string(index)});
    if (!response.ok() && response.code() == ErrorCode::kClosed) return static_cast<const fleet::Record*>(nullptr);
    if (!response.ok()) return std::move(response).take_error();
    ROTA_TRY_ASSIGN(const std::vector<std::string_view> records, host::split_log(response->body));
    if (records.empty()) return static_cast<const fleet::Record*>(nullptr);
    ROTA_TRY_ASSIGN(found_, fleet::decode_stored_record(records.front()));
    return static_cast<const fleet::Record*>(&found_);
  }

 private:
  Result<fleet::Brain> try_begin() {
    position_ = {};
    compacted_ = 0;
    Result<void> all = fetch(0);
    if (all.ok()) return fleet::Brain();
    if (all.code() != ErrorCode::kClosed) return std::move(all).take_error();
    ROTA_TRY_ASSIGN(net::HttpResponse response,
                    host_->ask({.target = "/v1/log/snapshot", .within = std::chrono::seconds(600)}));
    Result<host::Recovered> recovered =
        host::decode_snapshot({.index = index_of(response), .bytes = std::move(response.body)});
    if (!recovered.ok()) return std::move(recovered).take_error().in(host_->url());
    position_ = recovered->position;
    compacted_ = position_.index;
    ROTA_TRY(fetch(0));
    return std::move(recovered->brain);
  }

  // Reads the page after the position. Closed if its first record was compacted.
  Result<void> fetch(int wait_seconds) {
    records_.clear();
    at_ = 0;
    std::string target = "/v1/log?from=" + std::to_string(position_.index + 1);
    if (wait_seconds > 0) target += "&wait=" + std::to_string(wait_seconds);
    ROTA_TRY_ASSIGN(page_, host_->ask({.target = std::move(target), .within = std::chrono::seconds(120)}));
    last_ = index_of(page_);
    ROTA_TRY_ASSIGN(records_, host::split_log(page_.body));
    return {};
  }

  const std::shared_ptr<RemoteHost> host_;
  net::HttpResponse page_;
  std::vector<std::string_view> records_;  // Of the page.
  std::size_t at_ = 0;
  fleet::LogPosition position_;
  std::uint64_t last_ = 0;
  bool begun_ = false;
  std::uint64_t compacted_ = 0;
  fleet::Record record_;
  fleet::Record found_;
};

}  // namespace

Result<std::unique_ptr<LogSource>> open_remote_log(const std::string& url) {
  ROTA_TRY_ASSIGN(std::shared_ptr<RemoteHost> host, RemoteHost::open(url));
  return std::unique_ptr<LogSource>(std::make_unique<RemoteSource>(std::move(host)));
}

}  // namespace rota::cli
