#include "ledger/etcd_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ledger/etcd_messages.h"
#include "net/http_url.h"
#include "rota/fiber/time.h"

namespace rota::ledger::kv {

namespace {

constexpr std::chrono::milliseconds kWatchRetry{50};

// A watch that outlives its connection: it remembers the next revision that it has not delivered.
class EtcdWatch final : public Watch {
 public:
  EtcdWatch(std::shared_ptr<net::GrpcClient> client, KeyRange range, std::int64_t revision)
      : client_(std::move(client)), range_(std::move(range)), next_revision_(revision) {}

  // Connects and waits for etcd's confirmation, so that changes from now on are seen.
  Result<void> start(Deadline deadline) {
    Result<std::unique_ptr<net::GrpcStream>> stream =
        client_->stream("/etcdserverpb.Watch/Watch", encode_watch(range_, next_revision_), deadline);
    if (!stream.ok()) return etcd_error(std::move(stream).take_error());
    stream_ = std::move(*stream);
    ROTA_TRY_ASSIGN(const WatchResponse response, receive(deadline));
    if (!response.created) return Error{ErrorCode::kCorrupt, "etcd sent changes before it confirmed the watch"};
    if (next_revision_ == 0) next_revision_ = response.revision + 1;
    return {};
  }

  Result<std::vector<Event>> next(Deadline deadline) override {
    for (;;) {
      Result<void> step;
      if (stream_ == nullptr) step = start(deadline);
      if (step.ok()) {
        Result<WatchResponse> response = receive(deadline);
        if (response.ok()) {
          // Repeated changes: a watch that starts at a revision delivers none before it.
          if (response->events.empty()) continue;
          next_revision_ = response->events.back().kv.mod_revision + 1;
          return std::move(response->events);
        }
        step = std::move(response).take_error();
      }
      const bool passed = fiber::now() >= deadline.time();
      if (step.code() == ErrorCode::kDeadlineExceeded && passed) return std::move(step).take_error();
      if (!is_unknown_outcome(step.code()) || step.code() == ErrorCode::kCancelled) {
        return std::move(step).take_error();
      }
      stream_.reset();
      if (passed) return Error{ErrorCode::kDeadlineExceeded, "no change by the deadline: " + step.error().message};
      ROTA_TRY(fiber::sleep_until(std::min(fiber::now() + kWatchRetry, deadline.time())));
    }
  }

 private:
  Result<WatchResponse> receive(Deadline deadline) {
    Result<std::optional<std::string>> message = stream_->next(deadline);
    if (!message.ok()) return etcd_error(std::move(message).take_error());
    if (!*message) return Error{ErrorCode::kUnavailable, "etcd ended the watch"};
    ROTA_TRY_ASSIGN(WatchResponse response, decode_watch(**message));
    if (!response.canceled) return response;
    if (response.compact_revision != 0) return compacted_error(response.compact_revision, "the watch");
    const Error error{ErrorCode::kUnavailable, "etcd cancelled the watch: " + response.cancel_reason};
    return etcd_error(error);
  }

  const std::shared_ptr<net::GrpcClient> client_;
  const KeyRange range_;
  std::int64_t next_revision_;
  std::unique_ptr<net::GrpcStream> stream_{};
};

net::GrpcOptions with_leader(net::GrpcOptions options) {
  // A member that is cut off from the cluster's leader ends watches with an error instead of falling silent.
  options.fields.push_back({"hasleader", "true"});
  return options;
}

}  // namespace

EtcdStore::EtcdStore(net::Network& network, net::GrpcOptions options, fiber::Nursery& nursery)
    : client_(std::make_shared<net::GrpcClient>(network, with_leader(std::move(options)), nursery)) {}

EtcdStore::~EtcdStore() { close(); }

void EtcdStore::close() { client_->close(); }

Result<std::string> EtcdStore::call(std::string_view path, std::string_view message, Deadline deadline) {
  Result<std::string> answer = client_->call(path, message, deadline);
  if (!answer.ok()) return etcd_error(std::move(answer).take_error());
  return answer;
}

Result<RangeResult> EtcdStore::range(const RangeRequest& request, Deadline deadline) {
  ROTA_TRY_ASSIGN(const std::string answer, call("/etcdserverpb.KV/Range", encode_range(request), deadline));
  return decode_range(answer);
}

Result<TxnResult> EtcdStore::txn(const Txn& txn, Deadline deadline) {
  ROTA_TRY_ASSIGN(const std::string answer, call("/etcdserverpb.KV/Txn", encode_txn(txn), deadline));
  ROTA_TRY_ASSIGN(TxnResult result, decode_txn(answer));
  const std::size_t expected = result.succeeded ? txn.success.size() : txn.failure.size();
  if (result.results.size() != expected) {
    return Error{ErrorCode::kCorrupt, "etcd answered a transaction of " + std::to_string(expected) +
                                          " operations with " + std::to_string(result.results.size())};
  }
  return result;
}

Result<Lease> EtcdStore::lease_grant(std::chrono::seconds ttl, Deadline deadline) {
  ROTA_TRY_ASSIGN(const std::string answer, call("/etcdserverpb.Lease/LeaseGrant", encode_lease_grant(ttl), deadline));
  ROTA_TRY_ASSIGN(const Lease lease, decode_lease(answer));
  if (lease.id == 0) return Error{ErrorCode::kCorrupt, "etcd granted a lease without an id"};
  return lease;
}

Result<void> EtcdStore::lease_keep(std::int64_t lease, Deadline deadline) {
  // A stream in both directions; one request and one response on it are a call.
  ROTA_TRY_ASSIGN(const std::string answer,
                  call("/etcdserverpb.Lease/LeaseKeepAlive", encode_lease_id(lease), deadline));
  ROTA_TRY_ASSIGN(const Lease kept, decode_lease(answer));
  if (kept.ttl.count() > 0) return {};
  return Error{ErrorCode::kNotFound, "the lease " + std::to_string(lease) + " has expired or was revoked"};
}

Result<void> EtcdStore::lease_revoke(std::int64_t lease, Deadline deadline) {
  ROTA_TRY(call("/etcdserverpb.Lease/LeaseRevoke", encode_lease_id(lease), deadline));
  return {};
}

Result<std::unique_ptr<Watch>> EtcdStore::watch(const KeyRange& range, std::int64_t revision, Deadline deadline) {
  auto watch = std::make_unique<EtcdWatch>(client_, range, revision);
  // From now on: etcd must have confirmed it. From a known revision, next() may connect as well.
  if (Result<void> started = watch->start(deadline); !started.ok()) return std::move(started).take_error();
  return std::unique_ptr<Watch>(std::move(watch));
}

Result<void> EtcdStore::compact(std::int64_t revision, Deadline deadline) {
  ROTA_TRY(call("/etcdserverpb.KV/Compact", encode_compaction(revision), deadline));
  return {};
}

Result<net::GrpcOptions> parse_etcd_urls(std::string_view urls) {
  net::GrpcOptions options;
  for (std::size_t begin = 0; begin <= urls.size();) {
    const std::size_t end = std::min(urls.find(',', begin), urls.size());
    Result<net::HttpUrl> url = net::HttpUrl::parse(urls.substr(begin, end - begin));
    if (!url.ok())
      return std::move(url).take_error().in("etcd endpoint " + std::to_string(options.endpoints.size() + 1));
    if (!options.endpoints.empty() && url->tls != options.tls) {
      return Error{ErrorCode::kInvalidArgument, "either all endpoints of etcd use https:// or none does"};
    }
    options.tls = url->tls;
    options.endpoints.push_back(std::move(url->endpoint));
    begin = end + 1;
  }
  return options;
}

}  // namespace rota::ledger::kv
