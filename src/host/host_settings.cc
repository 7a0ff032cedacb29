#include "host/host_settings.h"

#include <utility>

namespace rota::host {

namespace {

using namespace std::chrono_literals;
using ledger::Durability;

}  // namespace

HostSettings::HostSettings(SettingsTable& table)
    : state_(table.add_string(
          {.name = "host.state", .meaning = "the state folder: ledger, logs and control socket", .flag = "state"},
          ".rota/host")),
      redis_(table.add_string(
          {.name = "host.redis",
           .meaning = "the Redis server of the fleet, redis://[user[:password]@]host[:port][/database]; "
                      "empty: local workers only",
           .flag = "redis",
           .environment = {"ROTA_REDIS"},
           .secret = true},
          "")),
      redis_prefix_(table.add_string({.name = "host.redis_prefix",
                                      .meaning = "the keys in Redis begin with it; fleets that share a server need "
                                                 "different ones",
                                      .flag = "redis-prefix",
                                      .environment = {"ROTA_REDIS_PREFIX"}},
                                     "rota", 64)),
      redis_ca_(table.add_string(
          {.name = "host.redis_ca",
           .meaning = "a PEM file with the CAs that may have signed the certificate of a Redis server at rediss://",
           .flag = "redis-ca",
           .environment = {"ROTA_REDIS_CA"}},
          "")),
      local_workers_(table.add_int({.name = "host.local_workers",
                                    .meaning = "workers in the host's own process, which share this machine; 0: none",
                                    .flag = "local-workers"},
                                   1, 0, 256)),
      threads_(table.add_int({.name = "host.threads", .meaning = "threads of the host itself", .flag = "threads"}, 2, 1,
                             64)),
      drain_(
          table.add_duration({.name = "host.drain",
                              .meaning = "after SIGTERM, how long tasks of local workers may continue; then they are "
                                         "stopped, and the next start runs them again without spending an attempt",
                              .flag = "drain"},
                             30s, 0s, 24h)),
      durability_(table.add_enum(
          {.name = "host.durability",
           .meaning = "full: the log survives a power failure; relaxed: a crash of the process",
           .flag = "durability"},
          Durability::kFull,
          {std::pair<std::string_view, Durability>{"full", Durability::kFull}, {"relaxed", Durability::kRelaxed}})),
      snapshot_every_(table.add_int({.name = "host.snapshot_every",
                                     .meaning = "records between two snapshots of the state; 0: never",
                                     .flag = "snapshot-every"},
                                    100'000, 0, 1'000'000'000'000)),
      compact_(table.add_bool({.name = "host.compact",
                               .meaning = "remove the records that a snapshot covers; explain and replay then begin at "
                                          "the snapshot",
                               .flag = "compact"},
                              true)),
      output_most_(table.add_bytes({.name = "host.output_most",
                                    .meaning = "output kept of one attempt that ran on another machine",
                                    .flag = "output-most"},
                                   {16U << 20}, {0}, {1ULL << 40})),
      etcd_(table.add_string({.name = "host.etcd",
                              .meaning = "the etcd servers that keep the log of several hosts, URL,URL,URL; empty: the "
                                         "log is in the state folder, and this host is the only one",
                              .flag = "etcd",
                              .environment = {"ROTA_ETCD"}},
                             "")),
      etcd_prefix_(table.add_string({.name = "host.etcd_prefix",
                                     .meaning = "the keys in etcd begin with it; fleets that share servers need "
                                                "different ones",
                                     .flag = "etcd-prefix",
                                     .environment = {"ROTA_ETCD_PREFIX"}},
                                    "rota/", 64)),
      etcd_lease_(table.add_duration({.name = "host.etcd_lease",
                                      .meaning = "another host takes over when the leader was silent for so long",
                                      .flag = "etcd-lease",
                                      .environment = {"ROTA_ETCD_LEASE"}},
                                     5s, 1s, 1h)),
      etcd_ca_(table.add_string({.name = "host.etcd_ca",
                                 .meaning = "a PEM file with the CAs that may have signed the certificates of etcd "
                                            "servers at https://",
                                 .flag = "etcd-ca",
                                 .environment = {"ROTA_ETCD_CA"}},
                                "")),
      etcd_certificate_(table.add_string({.name = "host.etcd_cert",
                                          .meaning = "a PEM file with the certificate that this host shows to etcd",
                                          .flag = "etcd-cert",
                                          .environment = {"ROTA_ETCD_CERT"}},
                                         "")),
      etcd_key_(table.add_string({.name = "host.etcd_key",
                                  .meaning = "a PEM file with the key of that certificate",
                                  .flag = "etcd-key",
                                  .environment = {"ROTA_ETCD_KEY"}},
                                 "")),
      advertise_(table.add_string({.name = "host.advertise",
                                   .meaning = "with --etcd: the URL under which clients reach this host; default: the "
                                              "address of --http",
                                   .flag = "advertise",
                                   .environment = {"ROTA_ADVERTISE"}},
                                  "")),
      density_(table.add_bool({.name = "host.density",
                               .meaning = "write submissions and active workers over time to task_worker_density.json",
                               .environment = {"ROTA_HOST_DENSITY", "HOST_METRICS_ENABLE_DENSITY_PLOT"}},
                              false)),
      metrics_directory_(table.add_string(
          {.name = "host.metrics_dir",
           .meaning =
               "the folder of metrics.json (with host.http) and of task_worker_density.json; empty: no metrics.json, "
               "and the density in the state folder",
           .environment = {"ROTA_HOST_METRICS_DIR", "HOST_METRICS_DIR"}},
          "")),
      density_bucket_(
          table.add_int({.name = "host.density_bucket_sec",
                         .meaning = "length of one bucket of the density",
                         .unit = "s",
                         .environment = {"ROTA_HOST_DENSITY_BUCKET_SEC", "HOST_METRICS_DENSITY_BUCKET_SEC"}},
                        60, 1, 86'400)),
      http_(table.add_string({.name = "host.http",
                              .meaning = "serve HTTP there, HOST:PORT; beyond loopback this needs TLS; empty: no HTTP",
                              .flag = "http"},
                             "")),
      http_certificate_(table.add_string({.name = "host.http_cert",
                                          .meaning = "a PEM file with the certificate of the HTTP server and its chain",
                                          .flag = "http-cert"},
                                         "")),
      http_key_(table.add_string(
          {.name = "host.http_key", .meaning = "a PEM file with the key of the certificate", .flag = "http-key"}, "")),
      http_hosts_(table.add_list({.name = "host.http_allow_host",
                                  .meaning = "more names under which HTTP clients reach this host, without ports",
                                  .flag = "http-allow-host"},
                                 {}, 64)),
      http_connections_(table.add_int({.name = "host.http_connections",
                                       .meaning = "open HTTP connections, streams of events among them; more are "
                                                  "answered with 503. The limit of open files may allow fewer",
                                       .flag = "http-connections"},
                                      12'000, 1, 1'000'000)),
      secrets_(table.add_string({.name = "host.secrets_dir",
                                 .meaning = "a folder with one file for each secret of tasks, mode 0600; local workers "
                                            "read it, and workers ask for the secrets of tasks that they hold; empty: "
                                            "none",
                                 .flag = "secrets-dir"},
                                "")),
      files_(
          table.add_string({.name = "host.files_dir",
                            .meaning = "the folder in which the outputs of stages are stored, for workers that joined "
                                       "with --host; hosts that share one log need a folder that all of them share; "
                                       "empty: files in the state folder",
                            .flag = "files"},
                           "")),
      files_bytes_(
          table.add_bytes({.name = "host.files_bytes",
                           .meaning = "the most bytes that the store of files may have; a file that does not fit "
                                      "is refused",
                           .flag = "files-bytes"},
                          {100ULL << 30}, {0}, {1ULL << 60})) {}

HostConfig HostSettings::config(const Settings& settings) const {
  HostConfig config;
  config.state = settings.get(state_);
  config.redis = settings.get(redis_);
  config.redis_prefix = settings.get(redis_prefix_);
  config.redis_ca = settings.get(redis_ca_);
  config.local_workers = settings.get(local_workers_);
  config.threads = settings.get(threads_);
  config.drain = settings.get(drain_);
  config.durability = settings.get(durability_);
  config.snapshot_every = static_cast<std::uint64_t>(settings.get(snapshot_every_));
  config.compact = settings.get(compact_);
  config.output_most_bytes = settings.get(output_most_).count;
  config.etcd = settings.get(etcd_);
  config.etcd_prefix = settings.get(etcd_prefix_);
  config.etcd_lease = settings.get(etcd_lease_);
  config.etcd_ca = settings.get(etcd_ca_);
  config.etcd_certificate = settings.get(etcd_certificate_);
  config.etcd_key = settings.get(etcd_key_);
  config.advertise = settings.get(advertise_);
  config.density = settings.get(density_);
  config.metrics_directory = settings.get(metrics_directory_);
  config.density_bucket_sec = settings.get(density_bucket_);
  config.http = settings.get(http_);
  config.http_certificate = settings.get(http_certificate_);
  config.http_key = settings.get(http_key_);
  config.http_hosts = settings.get(http_hosts_);
  config.http_connections = settings.get(http_connections_);
  config.secrets = settings.get(secrets_);
  config.files = settings.get(files_);
  if (config.files.empty()) config.files = config.state + "/files";
  config.files_bytes = settings.get(files_bytes_).count;
  return config;
}

}  // namespace rota::host
