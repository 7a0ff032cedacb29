#include "cli/host_session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "base/units.h"
#include "bus/local.h"
#include "bus/redis_accounts.h"
#include "bus/redis_bus.h"
#include "cli/control_client.h"
#include "cli/daemon.h"
#include "cli/etcd_access.h"
#include "cli/host_watch.h"
#include "host/control_server.h"
#include "host/follower.h"
#include "host/host.h"
#include "host/http_door.h"
#include "host/scheduler.h"
#include "ledger/disk_ledger.h"
#include "ledger/replicated_ledger.h"
#include "net/http_url.h"
#include "net/redis_url.h"
#include "net/stream.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"
#include "rota/version.h"
#include "rota/worker.h"
#include "worker/guard_pool.h"

namespace rota::cli {

using std::chrono::nanoseconds;

namespace {

constexpr std::uint64_t kOtherFiles = 512;  // Open files that are not connections of HTTP clients.

constexpr std::chrono::seconds kFlush{2};        // For the last messages to reach Redis.
constexpr std::chrono::seconds kLookEvery{1};    // How often the state of the bus is looked at.
constexpr std::chrono::seconds kEtcdWithin{30};  // To reach etcd at the start.
constexpr std::chrono::seconds kAfterDrain{15};  // For programs that were told to stop: TERM, then KILL.
// Workers in the host's process have this label. Their tasks are given back without spending an attempt when the host
// starts again.
const model::Label kEmbedded{"rota.embedded", "true"};

std::vector<model::WorkerSpec> local_specs(std::int64_t count) {
  std::vector<model::WorkerSpec> specs;
  if (count == 0) return specs;
  const model::Resources machine = machine_resources();
  for (std::int64_t i = 1; i <= count; ++i) {
    model::WorkerSpec spec;
    spec.name = count == 1 ? "local" : "local-" + std::to_string(i);
    spec.resources.cpu_millis = std::max<std::int64_t>(machine.cpu_millis / count, 1);
    spec.resources.memory_bytes = machine.memory_bytes / count;
    if (i == 1) spec.resources.gpus = machine.gpus;
    spec.labels = {kEmbedded};
    specs.push_back(std::move(spec));
  }
  return specs;
}

host::HttpDoorOptions http_options(const host::HostConfig& config) {
  host::HttpDoorOptions options;
  options.address = config.http;
  options.certificate = config.http_certificate;
  options.key = config.http_key;
  options.hosts = config.http_hosts;
  options.state = config.state;
  options.secrets = config.secrets;
  options.files = config.files;
  options.files_bytes = config.files_bytes;
  if (config.density) options.density = density_path(config);
  options.metrics = metrics_path(config);
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment.
  if (user != nullptr && *user != '\0') options.user = user;
  return options;
}

EtcdAccess etcd_access(const host::HostConfig& config) {
  return {.urls = config.etcd,
          .prefix = config.etcd_prefix,
          .ca = config.etcd_ca,
          .certificate = config.etcd_certificate,
          .key = config.etcd_key};
}

// The URL under which others reach this host.
Result<std::string> advertised(const host::HostConfig& config) {
  if (!config.advertise.empty()) {
    ROTA_TRY_ASSIGN(const net::HttpUrl url, net::HttpUrl::parse(config.advertise));
    return url.to_string();
  }
  ROTA_TRY_ASSIGN(const net::Endpoint endpoint, host::check_http_address(http_options(config)));
  if (endpoint.host == "0.0.0.0" || endpoint.host == "::" || endpoint.port == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + config.http +
                     "' does not say how others reach this host; give --advertise URL, for example "
                     "--advertise https://host-1.example:7070"};
  }
  const bool tls = !config.http_certificate.empty() || host::has_certificate(config.state);
  return (tls ? "https://" : "http://") + endpoint.to_string();
}

// What several hosts need that a single one does not.
Result<void> check_replicated(const host::HostConfig& config) {
  if (config.etcd.empty()) return {};
  ROTA_TRY(etcd_access(config).check());
  if (config.redis.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--etcd needs --redis URL: every host that may lead must reach the workers"};
  }
  if (config.http.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--etcd needs --http ADDRESS: a host that does not lead sends clients to the one that does"};
  }
  ROTA_TRY(advertised(config));
  return {};
}

// Runs the body in a nursery, and ends the tasks that still wait when it returns.
template <class Body>
void in_scope(Body&& body) {
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      body(nursery);
      nursery.cancel();
    });
  } catch (const fiber::Cancelled&) {  // As it was told to.
  }
}

class Session {
 public:
  // `ledger`: null if the log is in etcd.
  Session(const HostSetup& setup, ledger::Ledger* ledger, DaemonSignals& signals,
          const std::function<Result<HostSetup>()>& reload)
      : setup_(setup),
        ledger_(ledger),
        signals_(signals),
        reload_(reload),
        // The workers in the process of a host that was deposed would be out of reach for the next leader.
        specs_(local_specs(setup.config.etcd.empty() ? setup.config.local_workers : 0)) {
    std::set<std::string> names;
    for (const model::WorkerSpec& spec : specs_) names.insert(spec.name);
    watch_ = std::make_unique<HostWatch>(setup_.config, std::move(names));
  }

  Result<void> run();

 private:
  struct LocalWorker {
    std::unique_ptr<bus::WorkerEnd> end;
    std::unique_ptr<Worker> worker;
    fiber::Task<Result<void>> task;
  };
  // The session's own events: what can end it.
  enum class Event : std::uint8_t { kStop, kReload, kHostEnded, kBusEnded };

  [[nodiscard]] bool is_replicated() const { return !setup_.config.etcd.empty(); }
  Result<std::shared_ptr<bus::RedisHostEnd>> open_redis(fiber::Nursery& nursery, std::uint64_t term);
  Result<void> open_replica(ledger::kv::Store& store, fiber::Nursery& nursery);
  // open_replica(), which may take long; a signal to stop ends it, with success and `stopping_` set.
  Result<void> await_replica(ledger::kv::Store& store, fiber::Nursery& nursery);
  // The beginning and the end of a term that this host leads.
  Result<std::vector<bus::HostEnd*>> begin_term(fiber::Nursery& nursery, std::uint64_t term);
  void end_term();
  host::HostOptions host_options(fiber::Nursery& nursery);
  [[nodiscard]] std::shared_ptr<bus::RedisHostEnd> redis() const {
    const sync::MutexLock lock(mutex_);
    return redis_bus_;
  }
  Result<void> serve(fiber::Nursery& nursery);
  Result<void> wait_until_told(fiber::Nursery& nursery);
  Result<void> open_door();
  // How workers get accounts at Redis.
  Result<host::WorkerGrants> grants();
  void start_workers(fiber::Nursery& nursery);
  void drain_workers();
  void reload();
  // Logs when Redis becomes unreachable and reachable, and reports when another host took over.
  void watch_bus();

  HostSetup setup_;
  std::unique_ptr<ledger::ReplicatedLedger> replica_;  // Null if the log is in the state folder.
  ledger::Ledger* ledger_;
  DaemonSignals& signals_;
  const std::function<Result<HostSetup>()>& reload_;
  const std::vector<model::WorkerSpec> specs_;
  std::unique_ptr<HostWatch> watch_;
  bus::LocalBus local_bus_;
  mutable sync::Mutex mutex_;
  std::shared_ptr<bus::RedisHostEnd> redis_bus_ ROTA_GUARDED_BY(mutex_);  // Null without Redis, or while following.
  sync::Atomic<bool> stopping_{false};
  std::unique_ptr<host::Host> host_;
  std::unique_ptr<host::ControlServer> control_;
  std::unique_ptr<bus::RedisAccounts> accounts_;  // Null without Redis or --http.
  std::unique_ptr<host::HttpDoor> door_;          // Null without --http.
  std::vector<LocalWorker> workers_;
  fiber::Channel<Event> events_{16};
};

Result<std::shared_ptr<bus::RedisHostEnd>> Session::open_redis(fiber::Nursery& nursery, std::uint64_t term) {
  ROTA_TRY_ASSIGN(bus::RedisBusOptions options,
                  bus::RedisBusOptions::of(setup_.config.redis, setup_.config.redis_prefix, setup_.config.redis_ca));
  options.term = term;
  ROTA_LOG(kInfo, "redis", {"url", options.url.to_string()}, {"prefix", options.prefix});
  ROTA_TRY_ASSIGN(std::unique_ptr<bus::RedisHostEnd> opened,
                  bus::RedisHostEnd::open(net::real_network(), std::move(options), nursery));
  std::shared_ptr<bus::RedisHostEnd> shared(std::move(opened));
  const sync::MutexLock lock(mutex_);
  redis_bus_ = shared;
  return shared;
}

Result<void> Session::open_replica(ledger::kv::Store& store, fiber::Nursery& nursery) {
  const host::HostConfig& config = setup_.config;
  ledger::EtcdLedgerOptions options;
  options.prefix = config.etcd_prefix;
  ROTA_TRY_ASSIGN(options.name, advertised(config));
  options.lease = std::chrono::ceil<std::chrono::seconds>(config.etcd_lease);
  options.terms_above = static_cast<std::uint64_t>((fiber::now() + fiber::wall_offset()).count() / 1'000'000);
  ROTA_LOG(kInfo, "connecting to etcd", {"urls", config.etcd}, {"for_at_most_s", kEtcdWithin.count()});
  Result<std::unique_ptr<ledger::ReplicatedLedger>> opened =
      ledger::ReplicatedLedger::open(store, std::move(options), nursery, kEtcdWithin);
  if (!opened.ok()) return std::move(opened).take_error().in("etcd at " + config.etcd);
  replica_ = std::move(*opened);
  ledger_ = replica_.get();
  ROTA_LOG(kInfo, "etcd", {"urls", config.etcd}, {"prefix", config.etcd_prefix}, {"record", replica_->last_index()},
           {"leader", replica_->leader()});
  return {};
}

Result<void> Session::await_replica(ledger::kv::Store& store, fiber::Nursery& nursery) {
  Result<void> opened;
  in_scope([&](fiber::Nursery& scope) {
    fiber::Task<void> opening = scope.spawn([&] { opened = open_replica(store, nursery); });
    fiber::Task<void> listening = scope.spawn([&] {
      for (;;) {
        const Result<DaemonSignal> signal = signals_.next();
        if (!signal.ok()) return;
        if (*signal != DaemonSignal::kStop) continue;  // The settings were read a moment ago.
        ROTA_LOG(kInfo, "stopping before etcd has answered");
        stopping_.store(true);
        opening.cancel();
        return;
      }
    });
    opening.wait();
    listening.cancel();
    listening.wait();
  });
  if (stopping_.load()) return {};
  return opened;
}

Result<std::vector<bus::HostEnd*>> Session::begin_term(fiber::Nursery& nursery, std::uint64_t term) {
  ROTA_TRY(host_->follower().read([&](const fleet::State& state) { watch_->begin(state); }));
  ROTA_TRY_ASSIGN(const std::shared_ptr<bus::RedisHostEnd> opened, open_redis(nursery, term));
  notify_service_manager("STATUS=leading");
  return std::vector<bus::HostEnd*>{opened.get()};
}

void Session::end_term() {
  std::shared_ptr<bus::RedisHostEnd> closing;
  {
    const sync::MutexLock lock(mutex_);
    closing.swap(redis_bus_);
  }
  if (closing == nullptr) return;
  if (stopping_.load()) (void)closing->flush(kFlush);
  closing->close();
  notify_service_manager("STATUS=following");
}

host::HostOptions Session::host_options(fiber::Nursery& nursery) {
  host::HostOptions options;
  options.policy = setup_.policy;
  options.follow = true;
  options.snapshot_every = setup_.config.snapshot_every;
  options.compact = setup_.config.compact;
  if (is_replicated()) {
    options.replica = replica_.get();
    options.open_buses = [this, &nursery](std::uint64_t term) { return begin_term(nursery, term); };
    options.close_buses = [this] { end_term(); };
    return options;
  }
  options.ends_with_host = [](const model::WorkerSpec& spec) {
    return std::find(spec.labels.begin(), spec.labels.end(), kEmbedded) != spec.labels.end();
  };
  options.await_workers = specs_.size();
  return options;
}

Result<void> Session::run() {
  Result<void> outcome;
  if (!is_replicated()) {
    in_scope([&](fiber::Nursery& nursery) { outcome = serve(nursery); });
    return outcome;
  }
  // The connection to etcd outlives the tasks of the ledger, and the ledger everything that reads the log.
  std::unique_ptr<EtcdConnection> connection;
  in_scope([&](fiber::Nursery& connections) {
    Result<std::unique_ptr<EtcdConnection>> opened = EtcdConnection::open(etcd_access(setup_.config), connections);
    if (!opened.ok()) {
      outcome = std::move(opened).take_error();
      return;
    }
    connection = std::move(*opened);
    in_scope([&](fiber::Nursery& ledger_tasks) {
      outcome = await_replica(connection->store(), ledger_tasks);
      if (outcome.ok() && !stopping_.load()) in_scope([&](fiber::Nursery& nursery) { outcome = serve(nursery); });
      door_.reset();
      control_.reset();
      host_.reset();
      replica_.reset();
    });
    connection->close();
  });
  return outcome;
}

Result<void> Session::serve(fiber::Nursery& nursery) {
  std::vector<bus::HostEnd*> buses{&local_bus_.host()};
  if (is_replicated()) {
    buses.clear();
  } else if (!setup_.config.redis.empty()) {
    ROTA_TRY_ASSIGN(const std::shared_ptr<bus::RedisHostEnd> opened, open_redis(nursery, 0));
    buses.push_back(opened.get());
  }
  host_ = std::make_unique<host::Host>(*ledger_, buses, host_options(nursery), watch_.get());
  fiber::Task<void> watching = nursery.spawn([this] { watch_->run(); });
  fiber::Task<Result<void>> hosting = nursery.spawn([this] {
    Result<void> ended = host_->run();
    (void)events_.try_send(Event::kHostEnded);
    return ended;
  });
  if (host_->follower().read([&](const fleet::State& state) { watch_->begin(state); }, 0, std::chrono::hours(1)).ok()) {
    start_workers(nursery);
  }
  ROTA_TRY(open_door());
  ROTA_TRY_ASSIGN(const std::unique_ptr<net::Listener> listener, listen_for_control(setup_.config.state));
  control_ = std::make_unique<host::ControlServer>(*host_, *listener);
  fiber::Task<void> controlling = nursery.spawn([this] { control_->run(); });
  std::optional<fiber::Task<void>> serving_http;
  if (door_ != nullptr) serving_http = nursery.spawn([this] { door_->run(); });
  fiber::Task<void> scheduling =
      nursery.spawn([scheduler = std::make_shared<host::Scheduler>(*host_)] { scheduler->run(); });

  Result<void> outcome = wait_until_told(nursery);

  notify_service_manager("STOPPING=1\nSTATUS=stopping");
  control_->refuse_submissions();
  if (door_ != nullptr) door_->refuse_submissions();
  scheduling.cancel();
  scheduling.wait();
  drain_workers();
  stopping_.store(true);
  host_->stop();
  if (Result<void> ended = hosting.get(); !ended.ok()) outcome = std::move(ended);
  if (const std::shared_ptr<bus::RedisHostEnd> bus = redis()) {
    (void)bus->flush(kFlush);
    bus->close();
  }
  // Another host may lead from now on.
  if (replica_ != nullptr) (void)replica_->close();
  listener->close();
  if (door_ != nullptr) door_->close();
  controlling.wait();
  if (serving_http) serving_http->wait();
  watch_->close();
  watching.wait();
  remove_control_socket(setup_.config.state);
  return outcome;
}

Result<host::WorkerGrants> Session::grants() {
  host::WorkerGrants grants;
  if (setup_.config.redis.empty()) return grants;
  ROTA_TRY_ASSIGN(const bus::RedisBusOptions options,
                  bus::RedisBusOptions::of(setup_.config.redis, setup_.config.redis_prefix, setup_.config.redis_ca));
  accounts_ = std::make_unique<bus::RedisAccounts>(net::real_network(), options);
  grants.grant = [this](const std::string& worker) -> Result<host::WorkerGrant> {
    ROTA_TRY_ASSIGN(bus::RedisAccount account, accounts_->grant(worker));
    return host::WorkerGrant{std::move(account.url), std::move(account.prefix), std::move(account.user),
                             std::move(account.password)};
  };
  grants.revoke = [this](const std::string& escaped) { return accounts_->revoke(escaped); };
  return grants;
}

Result<void> Session::open_door() {
  const host::HostConfig& config = setup_.config;
  if (config.http.empty()) {
    if (!metrics_path(config).empty()) {
      ROTA_LOG(kWarn, "metrics.json is written by a host with HTTP only; give --http ADDRESS",
               {"file", metrics_path(config)});
    }
    return {};
  }
  host::HttpDoorOptions options = http_options(config);
  // The ledger, the bus, logs and local workers need files, too.
  const std::uint64_t files = worker::raise_open_files();
  const std::uint64_t most = files > 2 * kOtherFiles ? files - kOtherFiles : files / 2;
  const auto wanted = static_cast<std::uint64_t>(config.http_connections);
  options.limits.connections = std::min(wanted, most);
  if (most < wanted) {
    ROTA_LOG(kInfo, "the limit of open files allows fewer HTTP connections than host.http_connections",
             {"connections", most}, {"open_files", files});
  }
  ROTA_TRY_ASSIGN(options.grants, grants());
  ROTA_TRY_ASSIGN(door_, host::HttpDoor::open(*host_, *ledger_, net::real_network(), std::move(options)));
  ROTA_LOG(kInfo, "http", {"url", (door_->is_encrypted() ? "https://" : "http://") + door_->endpoint().to_string()},
           {"tokens", config.state + "/" + std::string(host::kTokensFile)});
  return {};
}

Result<void> Session::wait_until_told(fiber::Nursery& nursery) {
  nursery.launch([this] {
    for (;;) {
      const Result<DaemonSignal> signal = signals_.next();
      if (!signal.ok()) return;
      (void)events_.try_send(*signal == DaemonSignal::kStop ? Event::kStop : Event::kReload);
    }
  });
  if (!setup_.config.redis.empty()) nursery.launch([this] { watch_bus(); });
  ROTA_LOG(kInfo, "host started", {"version", library_version_text()}, {"state", setup_.config.state},
           {"local_workers", specs_.size()}, {"record", ledger_->last_index()});
  notify_service_manager("READY=1\nSTATUS=serving");
  for (;;) {
    const std::optional<Event> event = events_.receive();
    if (!event) return {};
    switch (*event) {
      case Event::kStop:
        ROTA_LOG(kInfo, "stopping: no more submissions are accepted", {"drain", setup_.config.drain},
                 {"again", "a second signal exits at once"});
        return {};
      case Event::kReload:
        reload();
        break;
      case Event::kHostEnded:
        return {};  // serve() returns its error.
      case Event::kBusEnded:
        return redis()->ended();
    }
  }
}

void Session::watch_bus() {
  bool reachable = false;
  bool told = false;
  for (;;) {
    const std::shared_ptr<bus::RedisHostEnd> bus = redis();
    if (bus == nullptr) {  // This host follows.
      if (!fiber::sleep_for(kLookEvery).ok()) return;
      continue;
    }
    // A host that shares its log follows when another one has taken the workers over.
    if (!bus->ended().ok() && !is_replicated()) {
      (void)events_.try_send(Event::kBusEnded);
      return;
    }
    const Result<void> status = bus->status();
    if (status.ok() && !reachable) ROTA_LOG(kInfo, "redis is reachable");
    if (!status.ok() && (reachable || !told)) {
      ROTA_LOG(kWarn, "redis is unreachable; running tasks continue", {"why", status.error().message});
      told = true;
    }
    reachable = status.ok();
    if (!fiber::sleep_for(kLookEvery).ok()) return;
  }
}

void Session::start_workers(fiber::Nursery& nursery) {
  for (const model::WorkerSpec& spec : specs_) {
    LocalWorker& local = workers_.emplace_back();
    WorkerOptions options;
    options.spec = spec;
    options.detect_resources = false;
    options.directory = setup_.config.state + "/logs";
    options.cache_directory = setup_.config.state + "/cache";
    options.secrets.directory = setup_.config.secrets;
    options.files.directory = setup_.config.files;
    options.files.directory_bytes = setup_.config.files_bytes;
    // Several in the time after which the host gives a silent worker up.
    options.heartbeat_every = std::clamp<nanoseconds>(std::chrono::milliseconds(setup_.policy.heartbeat_ttl_ms) / 4,
                                                      std::chrono::milliseconds(10), options.heartbeat_every);
    local.worker = std::make_unique<Worker>(std::move(options));
    local.end = local_bus_.connect(spec.name).value();  // The names are different.
    local.task = nursery.spawn([worker = local.worker.get(), end = local.end.get()] { return worker->run(*end); });
  }
}

void Session::drain_workers() {
  for (LocalWorker& local : workers_) local.worker->stop();
  const nanoseconds until = fiber::now() + setup_.config.drain;
  for (LocalWorker& local : workers_) {
    if (local.task.wait_for(std::max<nanoseconds>(until - fiber::now(), nanoseconds(0)))) continue;
    ROTA_LOG(kWarn, "stopping the tasks of a local worker: they did not end in time",
             {"worker", local.worker->spec().name}, {"drain", setup_.config.drain});
    local.task.cancel();
  }
  for (LocalWorker& local : workers_) {
    if (!local.task.wait_for(kAfterDrain)) ROTA_LOG(kError, "a local worker does not end");
  }
}

void Session::reload() {
  Result<HostSetup> loaded = reload_();
  if (!loaded.ok()) {
    ROTA_LOG(kError, "settings not reloaded", {"why", loaded.error().message});
    return;
  }
  if (loaded->policy != setup_.policy) {
    const Result<fleet::Events> set = host_->execute(fleet::SetPolicy{loaded->policy});
    if (set.ok()) {
      setup_.policy = loaded->policy;
      ROTA_LOG(kInfo, "reloaded the policy");
    } else {
      ROTA_LOG(kError, "the new policy was refused; the old one stays", {"why", set.error().message});
    }
  }
  set_log_level(loaded->log.level);
  (void)reopen_log();
  const host::HostConfig& now = setup_.config;
  const host::HostConfig& wanted = loaded->config;
  const auto needs_restart = [](std::string_view name, bool changed) {
    if (changed) ROTA_LOG(kWarn, "this setting has changed and needs a restart", {"setting", name});
  };
  needs_restart("host.state", now.state != wanted.state);
  needs_restart("host.redis", now.redis != wanted.redis);
  needs_restart("host.redis_prefix", now.redis_prefix != wanted.redis_prefix);
  needs_restart("host.redis_ca", now.redis_ca != wanted.redis_ca);
  needs_restart("host.etcd", now.etcd != wanted.etcd || now.etcd_prefix != wanted.etcd_prefix ||
                                 now.etcd_lease != wanted.etcd_lease || now.etcd_ca != wanted.etcd_ca ||
                                 now.etcd_certificate != wanted.etcd_certificate || now.etcd_key != wanted.etcd_key ||
                                 now.advertise != wanted.advertise);
  needs_restart("host.local_workers", now.local_workers != wanted.local_workers);
  needs_restart("host.threads", now.threads != wanted.threads);
  needs_restart("host.durability", now.durability != wanted.durability);
  needs_restart("host.snapshot_every", now.snapshot_every != wanted.snapshot_every);
  needs_restart("host.compact", now.compact != wanted.compact);
  needs_restart("host.output_most", now.output_most_bytes != wanted.output_most_bytes);
  needs_restart("host.density", now.density != wanted.density || now.metrics_directory != wanted.metrics_directory ||
                                    now.density_bucket_sec != wanted.density_bucket_sec);
  needs_restart("host.http", now.http != wanted.http || now.http_certificate != wanted.http_certificate ||
                                 now.http_key != wanted.http_key || now.http_hosts != wanted.http_hosts ||
                                 now.http_connections != wanted.http_connections);
  needs_restart("log.file", setup_.log.file != loaded->log.file || setup_.log.format != loaded->log.format);
  if (door_ != nullptr) {
    if (const Result<void> read = door_->reload(); !read.ok()) {
      ROTA_LOG(kError, "the certificate of the HTTP server was not reloaded", {"why", read.error().message});
    }
  }
  setup_.config.drain = wanted.drain;
  ROTA_LOG(kInfo, "settings reloaded");
}

}  // namespace

Result<void> run_host(const HostSetup& setup, const std::function<Result<HostSetup>()>& reload) {
  // An address that is refused is an error before anything is started.
  if (!setup.config.http.empty()) ROTA_TRY(host::check_http_address(http_options(setup.config)));
  ROTA_TRY(check_replicated(setup.config));
  std::error_code error;
  std::filesystem::create_directories(setup.config.state + "/logs", error);
  if (error) {
    return Error{error == std::errc::permission_denied ? ErrorCode::kPermissionDenied : ErrorCode::kIoError,
                 "the state folder '" + setup.config.state + "' could not be created: " + error.message() +
                     "; choose another one with --state DIR"};
  }
  // Only the user who runs the host may reach its control socket and read the log.
  if (::chmod(setup.config.state.c_str(), 0700) != 0) {
    return Error{ErrorCode::kPermissionDenied, "the state folder '" + setup.config.state +
                                                   "' belongs to another user; choose another one with --state DIR"};
  }
  ROTA_TRY(start_log(setup.log));
  // Created before any other thread: see run_session.cc.
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = static_cast<std::size_t>(setup.config.threads)}));
  std::unique_ptr<ledger::DiskLedger> ledger;
  if (setup.config.etcd.empty()) {
    ROTA_TRY_ASSIGN(ledger, ledger::DiskLedger::open(
                                {.path = setup.config.state + "/ledger.db", .durability = setup.config.durability}));
  }
  ROTA_TRY_ASSIGN(const std::unique_ptr<DaemonSignals> signals, DaemonSignals::install(2));
  Result<void> outcome = runtime->run([&] { return Session(setup, ledger.get(), *signals, reload).run(); });
  Result<void> closed;
  if (ledger != nullptr) closed = ledger->close();
  if (outcome.ok()) outcome = std::move(closed);
  if (outcome.ok()) {
    ROTA_LOG(kInfo, "host stopped");
  } else {
    ROTA_LOG(kError, "host stopped", {"why", outcome.error().message});
  }
  stop_log();
  return outcome;
}

}  // namespace rota::cli
