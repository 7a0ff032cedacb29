// `rota worker --redis URL`: adds this machine to a fleet.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/secret_file.h"
#include "base/settings.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "cli/worker_identity.h"
#include "cli/worker_session.h"
#include "worker/gpu.h"
#include "workflow/fleet_file.h"

namespace rota::cli {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kDetectGpus{5000};

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "worker";
  return name.data();
}

// "key=value", split at the first '='.
Result<std::pair<std::string, std::string>> split_pair(const std::string& text, std::string_view what) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + printable(text) + "' is not a " + std::string(what) + "; write NAME=VALUE"};
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

struct WorkerTable {
  SettingsTable table{};
  Setting<std::string> redis =
      table.add_string({.name = "worker.redis",
                        .meaning = "the Redis server of the fleet, redis://[user[:password]@]host[:port][/database]",
                        .flag = "redis",
                        .environment = {"ROTA_REDIS"},
                        .secret = true},
                       "");
  Setting<std::string> host = table.add_string(
      {.name = "worker.host",
       .meaning = "the URL of the host's HTTP interface, to join its fleet with --token; it names the Redis server",
       .flag = "host",
       .environment = {"ROTA_WORKER_HOST"}},
      "");
  Setting<std::string> token = table.add_string({.name = "worker.token",
                                                 .meaning = "the join token that `rota token join` has printed",
                                                 .flag = "token",
                                                 .environment = {"ROTA_JOIN_TOKEN"},
                                                 .secret = true},
                                                "");
  Setting<std::string> identity = table.add_string(
      {.name = "worker.identity_file",
       .meaning =
           "where the identity is kept that the host gives; empty: identity.json in --dir, or nowhere without it",
       .flag = "identity-file"},
      "");
  Setting<std::string> prefix = table.add_string({.name = "worker.redis_prefix",
                                                  .meaning = "the prefix of the keys in Redis, as the host's",
                                                  .flag = "redis-prefix",
                                                  .environment = {"ROTA_REDIS_PREFIX"}},
                                                 "rota", 64);
  Setting<std::string> ca = table.add_string(
      {.name = "worker.redis_ca",
       .meaning = "a PEM file with the CAs that may have signed the certificate of a Redis server at rediss://",
       .flag = "redis-ca",
       .environment = {"ROTA_REDIS_CA"}},
      "");
  Setting<std::string> name =
      table.add_string({.name = "worker.name",
                        .meaning = "the worker's name, unique in the fleet; empty: the name of this machine",
                        .flag = "name"},
                       "", 255);
  Setting<double> cpu = table.add_float(
      {.name = "worker.cpu", .meaning = "CPUs that tasks may use; 0: all of this machine or cgroup", .flag = "cpu"}, 0,
      0, 100'000);
  Setting<ByteSize> memory = table.add_bytes({.name = "worker.memory",
                                              .meaning = "memory that tasks may use; 0: all of this machine or cgroup",
                                              .flag = "memory"},
                                             {0}, {0}, {1ULL << 50});
  Setting<StringList> gpus =
      table.add_list({.name = "worker.gpu",
                      .meaning = "GPUs as COUNTxMODEL:MEMORY, like 2xA100:80GiB, or none; empty: detected",
                      .flag = "gpu"},
                     {});
  Setting<std::string> zone =
      table.add_string({.name = "worker.zone", .meaning = "the zone of this machine", .flag = "zone"}, "");
  Setting<double> cost = table.add_float(
      {.name = "worker.cost_per_hour", .meaning = "price of this machine", .unit = "dollars", .flag = "cost-per-hour"},
      1, 0, 9000);
  Setting<double> power = table.add_float({.name = "worker.power_watts",
                                           .meaning = "power that this machine draws; 0: not known",
                                           .unit = "W",
                                           .flag = "power-watts"},
                                          0, 0, 1'000'000);
  Setting<StringList> labels =
      table.add_list({.name = "worker.labels", .meaning = "labels, each as NAME=VALUE", .flag = "label"}, {});
  Setting<StringList> capabilities =
      table.add_list({.name = "worker.capabilities", .meaning = "what this machine can do", .flag = "capability"}, {});
  Setting<StringList> named = table.add_list(
      {.name = "worker.named", .meaning = "counted resources, each as NAME=COUNT, like licence=2", .flag = "named"},
      {});
  Setting<std::string> directory = table.add_string(
      {.name = "worker.dir", .meaning = "folder for the output of programs; empty: a temporary one", .flag = "dir"},
      "");
  Setting<std::string> cache =
      table.add_string({.name = "worker.cache_dir",
                        .meaning = "folder for the results of stages with `cache`; empty: such stages always run",
                        .flag = "cache-dir"},
                       "");
  Setting<std::string> files = table.add_string(
      {.name = "worker.files_dir",
       .meaning =
           "a folder that all machines of the fleet share, in which the outputs of stages are stored; empty: at the "
           "host that was joined with --host",
       .flag = "files"},
      "");
  Setting<ByteSize> files_bytes = table.add_bytes(
      {.name = "worker.files_bytes",
       .meaning = "the most bytes that the folder of --files may have; a file that does not fit is refused",
       .flag = "files-bytes"},
      {100ULL << 30}, {0}, {1ULL << 60});
  Setting<std::string> files_cache = table.add_string(
      {.name = "worker.files_cache_dir",
       .meaning = "this worker's cache of files; empty: files in --dir, or without it a temporary folder "
                  "(none with --files)",
       .flag = "files-cache"},
      "");
  Setting<ByteSize> files_cache_bytes = table.add_bytes(
      {.name = "worker.files_cache_bytes",
       .meaning = "the most bytes that the cache of files may have; the least recently used are removed",
       .flag = "files-cache-bytes"},
      {20ULL << 30}, {1ULL << 20}, {1ULL << 60});
  Setting<std::string> secrets_directory =
      table.add_string({.name = "worker.secrets_dir",
                        .meaning = "a folder with one file for each secret of tasks, mode 0600; empty: none",
                        .flag = "secrets-dir"},
                       "");
  Setting<std::string> secrets_command =
      table.add_string({.name = "worker.secrets_command",
                        .meaning = "a shell command that prints the value of the secret $ROTA_SECRET (its version: "
                                   "$ROTA_SECRET_VERSION); empty: none",
                        .flag = "secrets-command"},
                       "");
  Setting<std::string> cgroup = table.add_string(
      {.name = "worker.cgroup", .meaning = "a cgroup v2 folder for programs, or auto; empty: none", .flag = "cgroup"},
      "");
  Setting<Duration> grace = table.add_duration(
      {.name = "worker.grace", .meaning = "time between TERM and KILL", .flag = "grace"}, 5s, 0s, 24h);
  Setting<Duration> heartbeat = table.add_duration(
      {.name = "worker.heartbeat",
       .meaning = "time between two heartbeats; the host's policy.heartbeat_ttl_ms should be several times that",
       .flag = "heartbeat"},
      5s, 10ms, 1h);
  Setting<Duration> drain = table.add_duration(
      {.name = "worker.drain", .meaning = "after SIGTERM, how long running tasks may continue", .flag = "drain"}, 10min,
      0s, 24h * 30);
  LogSettings log{table};
};

struct WorkerCommand {
  WorkerTable table{};
  std::string config{};
  std::string file{};
  std::vector<std::string> arguments{};
};

// The worker that a fleet file describes.
Result<model::WorkerSpec> spec_of_file(const std::string& path) {
  ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(path));
  workflow::FleetFile fleet = workflow::read_fleet(source);
  if (!fleet.ok()) return workflow::to_error(source.path, fleet.problems);
  if (fleet.workers.size() != 1) {
    return Error{ErrorCode::kInvalidArgument, path + " describes " + std::to_string(fleet.workers.size()) +
                                                  " workers; this process is one: write a file with one worker"};
  }
  return std::move(fleet.workers.front());
}

// What was given in settings comes before the file, and the file before what is detected.
Result<model::WorkerSpec> spec_of(const WorkerTable& rows, const Settings& settings, const std::string& file) {
  model::WorkerSpec spec;
  const bool described = !file.empty();
  if (described) {
    ROTA_TRY_ASSIGN(spec, spec_of_file(file));
  }
  const auto given = [&](auto setting) { return settings.origin(setting).kind != SettingOrigin::Kind::kDefault; };
  if (given(rows.name)) spec.name = settings.get(rows.name);
  if (spec.name.empty()) spec.name = host_name();
  if (given(rows.cpu)) spec.resources.cpu_millis = static_cast<std::int64_t>(settings.get(rows.cpu) * 1000 + 0.5);
  if (given(rows.memory)) spec.resources.memory_bytes = static_cast<std::int64_t>(settings.get(rows.memory).count);
  if (given(rows.gpus)) {
    ROTA_TRY_ASSIGN(spec.resources.gpus, worker::parse_devices(settings.get(rows.gpus)));
  } else if (!described) {
    spec.resources.gpus = worker::detect_gpus(kDetectGpus);
  }
  if (given(rows.zone)) spec.zone = settings.get(rows.zone);
  if (given(rows.cost))
    spec.cost_microdollars_per_hour = static_cast<std::int64_t>(settings.get(rows.cost) * 1e6 + 0.5);
  if (given(rows.power)) spec.power_milliwatts = static_cast<std::int64_t>(settings.get(rows.power) * 1e3 + 0.5);
  if (given(rows.capabilities)) spec.capabilities = settings.get(rows.capabilities);
  if (given(rows.labels)) {
    spec.labels.clear();
    for (const std::string& text : settings.get(rows.labels)) {
      ROTA_TRY_ASSIGN(auto label, split_pair(text, "label"));
      spec.labels.push_back({std::move(label.first), std::move(label.second)});
    }
  }
  if (given(rows.named)) {
    spec.resources.named.clear();
    for (const std::string& text : settings.get(rows.named)) {
      ROTA_TRY_ASSIGN(auto amount, split_pair(text, "counted resource"));
      std::int64_t count = 0;
      const auto [end, error] =
          std::from_chars(amount.second.data(), amount.second.data() + amount.second.size(), count);
      if (error != std::errc() || end != amount.second.data() + amount.second.size() || count < 1) {
        return Error{ErrorCode::kInvalidArgument, "'" + printable(text) + "': the count must be a number from 1"};
      }
      spec.resources.named.push_back({std::move(amount.first), count});
    }
    std::sort(spec.resources.named.begin(), spec.resources.named.end());
    if (!spec.resources.named_is_valid()) {
      return Error{ErrorCode::kInvalidArgument, "a counted resource was given twice"};
    }
  }
  std::sort(spec.labels.begin(), spec.labels.end());
  std::sort(spec.capabilities.begin(), spec.capabilities.end());
  return spec;
}

Result<int> run(const WorkerCommand& command) {
  const WorkerTable& rows = command.table;
  ROTA_TRY_ASSIGN(const Settings settings, load_all(rows.table, command.arguments, command.config));
  WorkerSetup setup;
  setup.join.redis = settings.get(rows.redis);
  const std::string url = settings.get(rows.host);
  if (setup.join.redis.empty() && url.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "which fleet? Give its host, rota worker --host https://HOST:7070 --token T, or its Redis server: rota "
        "worker --redis redis://HOST, or ROTA_REDIS"};
  }
  setup.join.prefix = settings.get(rows.prefix);
  setup.join.redis_ca = settings.get(rows.ca);
  ROTA_TRY_ASSIGN(setup.options.spec, spec_of(rows, settings, command.file));
  if (!url.empty()) {
    setup.identity_file = settings.get(rows.identity);
    if (setup.identity_file.empty() && !settings.get(rows.directory).empty()) {
      setup.identity_file = settings.get(rows.directory) + "/identity.json";
    }
    if (!settings.get(rows.directory).empty()) {
      std::error_code none;
      std::filesystem::create_directories(settings.get(rows.directory), none);  // run_worker() reports a failure.
    }
    ROTA_TRY_ASSIGN(setup.identity,
                    join_fleet(url, settings.get(rows.token), setup.options.spec.name, setup.identity_file));
    ROTA_TRY_ASSIGN(setup.join.redis, setup.identity->redis_url(setup.join.redis));
    if (!setup.identity->prefix.empty()) setup.join.prefix = setup.identity->prefix;
  }
  // What the file leaves open was given a value by its reader: it describes the machine as a whole.
  model::Resources& resources = setup.options.spec.resources;
  const model::Resources machine = machine_resources();
  if (resources.cpu_millis == 0) resources.cpu_millis = machine.cpu_millis;
  if (resources.memory_bytes == 0) resources.memory_bytes = machine.memory_bytes;
  setup.options.detect_resources = false;
  setup.options.directory = settings.get(rows.directory);
  setup.options.cache_directory = settings.get(rows.cache);
  FileSources& files = setup.options.files;
  files.directory = settings.get(rows.files);
  files.directory_bytes = settings.get(rows.files_bytes).count;
  files.cache_directory = settings.get(rows.files_cache);
  files.cache_bytes = settings.get(rows.files_cache_bytes).count;
  if (files.cache_directory.empty() && !settings.get(rows.directory).empty()) {
    files.cache_directory = settings.get(rows.directory) + "/files";
  }
  setup.options.secrets.directory = settings.get(rows.secrets_directory);
  setup.options.secrets.command = settings.get(rows.secrets_command);
  if (!setup.options.secrets.directory.empty()) ROTA_TRY(check_secret_directory(setup.options.secrets.directory));
  setup.options.cgroup = settings.get(rows.cgroup);
  setup.options.grace = std::chrono::duration_cast<std::chrono::milliseconds>(settings.get(rows.grace));
  setup.options.heartbeat_every = settings.get(rows.heartbeat);
  setup.options.stream_output = true;
  setup.options.expect_programs = true;
  setup.drain = settings.get(rows.drain);
  setup.log = rows.log.options(settings);
  std::signal(SIGPIPE, SIG_IGN);
  ROTA_TRY(run_worker(setup));
  return 0;
}

}  // namespace

Subcommand worker_subcommand() {
  auto command = std::make_shared<WorkerCommand>();
  std::vector<Option> all{
      text("--config", "FILE", &command->config, "a YAML file with settings; flags and environment come before it"),
      text("--file", "FILE", &command->file,
           "a fleet file with one worker: what this machine has; flags come before it")};
  for (Option& option : setting_options(command->table.table, &command->arguments)) all.push_back(std::move(option));
  return {
      .name = "worker",
      .meaning = "Add this machine to a fleet: run tasks for the host that uses the same Redis server",
      .options = std::move(all),
      .footer =
          "The worker runs until SIGTERM or SIGINT: it then takes no more tasks, lets running ones end (--drain) and\n"
          "leaves with status 0; a second signal stops running tasks, which the host gives to other workers; a third\n"
          "exits at once. With --host and --token it gets an identity and an account at Redis of its own, which it "
          "renews\n"
          "(docs/security.md). While Redis or the host cannot be reached, running tasks continue and are reported "
          "later.",
      .examples = {"rota worker --redis redis://10.0.0.7",
                   "rota worker --host https://rota.example:7070 --token $JOIN_TOKEN --dir /var/lib/rota-worker",
                   "rota worker --redis redis://10.0.0.7 --name gpu-1 --zone eu-1 --cost-per-hour 3.2 "
                   "--gpu 2xA100:80GiB --label rack=b7"},
      .run = [command](Output&) { return run(*command); }};
}

}  // namespace rota::cli
