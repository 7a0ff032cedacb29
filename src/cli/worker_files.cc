#include "cli/worker_files.h"

#include <charconv>
#include <chrono>
#include <utility>

#include "cli/remote_host.h"
#include "model/json.h"
#include "net/http_url.h"

namespace rota::cli {

namespace {

constexpr std::chrono::seconds kWithin{60};       // For one piece,
constexpr std::chrono::minutes kCheckWithin{30};  // and for reading a whole content at the host.
constexpr std::string_view kSystemCas = "/etc/ssl/certs/ca-certificates.crt";

std::string target_of(const std::string& sha256) { return "/v1/files/" + sha256; }

}  // namespace

Result<std::shared_ptr<HostStore>> HostStore::open(const CurrentIdentity& identity) {
  const WorkerIdentity now = identity.get();
  const std::shared_ptr<HostStore> store(new HostStore(identity));
  std::string_view left = now.host;
  bool tls = false;
  while (!left.empty()) {
    const std::size_t comma = std::min(left.find(','), left.size());
    ROTA_TRY_ASSIGN(const net::HttpUrl url, net::HttpUrl::parse(left.substr(0, comma)));
    if (!store->endpoints_.empty() && url.tls != tls) {
      return Error{ErrorCode::kFailedPrecondition, "of several URLs of the host, all have TLS or none"};
    }
    tls = url.tls;
    store->endpoints_.push_back(url.endpoint);
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
  if (!tls) return store;
  net::TlsClientOptions options;
  if (now.ca_sha256.empty()) {
    options.ca.path = kSystemCas;
  } else {
    options.ca_sha256 = now.ca_sha256;
  }
  options.settings.alpn = {"http/1.1"};
  ROTA_TRY_ASSIGN(store->tls_, net::TlsContext::client(std::move(options)));
  store->network_ = std::make_unique<net::TlsNetwork>(net::real_network(), store->tls_);
  return store;
}

HostStore::~HostStore() = default;

Result<net::HttpResponse> HostStore::ask(net::HttpClientRequest request) {
  request.fields.push_back({"Authorization", "Bearer " + identity_.get().identity});
  request.fields.push_back({"User-Agent", "rota"});
  std::unique_ptr<net::HttpClient> client;
  std::size_t chosen = 0;
  {
    const sync::MutexLock lock(mutex_);
    chosen = chosen_;
    if (!free_.empty()) {
      client = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (client == nullptr) {
    net::Network& network = network_ == nullptr ? net::real_network() : *network_;
    client = std::make_unique<net::HttpClient>(network, endpoints_[chosen]);
  }
  const bool checks = request.method == "POST";
  Result<net::HttpResponse> response = client->call(request, checks ? fiber::Deadline(kCheckWithin) : kWithin);
  const sync::MutexLock lock(mutex_);
  if (!response.ok()) {
    if (chosen == chosen_ && response.code() != ErrorCode::kCancelled) {
      chosen_ = (chosen_ + 1) % endpoints_.size();
      free_.clear();
    }
    Error error = std::move(response).take_error();
    if (error.code == ErrorCode::kIoError || error.code == ErrorCode::kCorrupt) error.code = ErrorCode::kUnavailable;
    return std::move(error).in("the host does not answer");
  }
  if (chosen == chosen_) free_.push_back(std::move(client));
  if (response->status < 400) return response;
  return problem_of(*response);
}

Result<std::uint64_t> HostStore::put(const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                                     std::string_view piece) {
  const Result<net::HttpResponse> response =
      ask({.method = "PUT",
           .target = target_of(sha256) + "?bytes=" + std::to_string(bytes) + "&offset=" + std::to_string(offset),
           .fields = {{"Content-Type", "application/octet-stream"}},
           .body = std::string(piece)});
  std::string text;
  if (response.ok()) {
    text = model::json_validate(response->body).ok() ? std::string(model::json_member(response->body, "offset")) : "";
  } else if (const std::string* at = response.error().detail("offset");
             response.code() == ErrorCode::kConflict && at != nullptr) {
    text = *at;  // Somebody else has sent a piece; this one goes on from there.
  } else {
    return response.error();
  }
  std::uint64_t position = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  if (error != std::errc() || end != text.data() + text.size() || position > bytes) {
    return Error{ErrorCode::kInternal, "the host's answer to a piece of a file was not understood"};
  }
  return position;
}

Result<std::string> HostStore::get(const std::string& sha256, std::uint64_t offset, std::size_t most) {
  ROTA_TRY_ASSIGN(
      net::HttpResponse response,
      ask({.target = target_of(sha256),
           .fields = {{"Range", "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + most - 1)}}}));
  if (response.status != 206) {
    return Error{ErrorCode::kInternal, "the host does not answer with a part of a file, but with the status " +
                                           std::to_string(response.status)};
  }
  return std::move(response.body);
}

Result<void> HostStore::check(const std::string& sha256) {
  ROTA_TRY(ask({.method = "POST", .target = target_of(sha256) + "/check"}));
  return {};
}

void use_host_store(FileSources& files, const std::shared_ptr<HostStore>& store) {
  files.put = [store](const std::string& sha256, std::uint64_t bytes, std::uint64_t offset, std::string_view piece) {
    return store->put(sha256, bytes, offset, piece);
  };
  files.get = [store](const std::string& sha256, std::uint64_t offset, std::size_t most) {
    return store->get(sha256, offset, most);
  };
  files.check = [store](const std::string& sha256) { return store->check(sha256); };
}

}  // namespace rota::cli
