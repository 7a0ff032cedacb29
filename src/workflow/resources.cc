// Reads the keys that `spec` and a stage have in common: the resources of a task, its retries and its environment.
#include <algorithm>

#include "base/json_text.h"
#include "base/secret_file.h"
#include "workflow/stage.h"

namespace rota::workflow {
namespace {

constexpr std::int64_t kMostNamed = 1'000'000'000;
constexpr std::int64_t kMostBackoffMs = 1'000LL * 3600 * 24 * 10;

void read_resources(Reading& reading, const Node& node, StageDefaults& io) {
  const Fields resources(reading, node, keys().resources);
  if (const Node* found = resources.map("hardware")) {
    const Fields hardware(reading, *found, keys().hardware);
    read_amounts(hardware, io.needs);
    if (const Node* gpu = hardware.map("gpu")) read_gpu(reading, *gpu, io.needs.gpu);
  }
  if (const Node* named = resources.map("named")) read_named(reading, *named, io.needs.named);
  resources.text("zone", io.needs.zone);
  resources.texts("capabilities", io.needs.capabilities);
  resources.text("worker", io.pinned);
  std::vector<std::pair<std::string, std::string>> labels;
  if (!resources.pairs("labels", labels)) return;
  io.needs.labels.clear();
  for (auto& [key, value] : labels) io.needs.labels.push_back({std::move(key), std::move(value)});
  std::sort(io.needs.labels.begin(), io.needs.labels.end());
}

void read_retry(Reading& reading, const Node& node, model::Retry& io) {
  const Fields retry(reading, node, keys().retry);
  retry.duration_ms("backoff", io.backoff_ms, kMostBackoffMs);
  retry.decimal("factor", 3, 1'000, 100'000, io.backoff_factor_permille);
  retry.duration_ms("max_backoff", io.backoff_most_ms, kMostBackoffMs);
  retry.decimal("memory_factor", 3, 1'000, 100'000, io.memory_factor_permille);
}

bool is_env_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void set_entry(std::vector<EnvEntry>& io, EnvEntry entry) {
  const auto found = std::find_if(io.begin(), io.end(), [&](const EnvEntry& each) { return each.name == entry.name; });
  if (found != io.end()) {
    *found = std::move(entry);
  } else {
    io.push_back(std::move(entry));
  }
}

bool check_env_name(Reading& reading, const Node& key) {
  const std::string_view name = reading.text(key);
  if (!is_env_name(name)) {
    reading.wrong(key, "'" + printable(name, 40) +
                           "' cannot be the name of a variable; use letters, digits and _, and no digit first");
  } else if (name.starts_with("ROTA_")) {
    reading.wrong(key,
                  "the variable " + printable(name, 40) + " cannot be set: those that start with ROTA_ are Rota's");
  } else {
    return true;
  }
  return false;
}

// `{secret: hf, version: 2}`, or `hf` alone.
void read_secret(Reading& reading, const Node& node, std::string_view variable, std::vector<EnvEntry>& io) {
  model::SecretVariable secret{.name = std::string(variable)};
  if (node.kind == Node::Kind::kMap) {
    const Fields fields(reading, node, keys().secret);
    fields.text("secret", secret.secret);
    fields.text("version", secret.version);
    if (reading.document.find(node, "secret") == nullptr) {
      reading.wrong(node, "the variable " + secret.name + " has no `secret`: write {secret: NAME}");
      return;
    }
  } else if (node.kind == Node::Kind::kScalar && !reading.document.is_null(node)) {
    secret.secret = reading.text(node);
  }
  if (!is_secret_name(secret.secret) || (!secret.version.empty() && !is_secret_name(secret.version))) {
    reading.wrong(node, "the secret of the variable " + secret.name + " is '" +
                            printable(secret_file_name(secret.secret, secret.version), 60) +
                            "'; the name of a secret has letters, digits, '.', '_' and '-', and begins with a letter "
                            "or a digit");
    return;
  }
  set_entry(io, {std::string(variable), &node, std::move(secret)});
}

// A mapping of variables to secrets, or a list of variables that are named as their secrets.
void read_secrets(Reading& reading, const Node& node, const Node* env, std::vector<EnvEntry>& io) {
  if (node.kind == Node::Kind::kScalar || Document::size(node) > kMostVariables) {
    reading.wrong(node, "secrets is " + reading.found(node) +
                            "; it must be a mapping of variables to names of secrets, {HF_TOKEN: hf}, with at most "
                            "1000 of them");
    return;
  }
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    const bool map = node.kind == Node::Kind::kMap;
    const Node& key = map ? reading.document.key(node, i) : reading.document.item(node, i);
    if (!check_env_name(reading, key)) continue;
    const std::string_view name = reading.text(key);
    if (env != nullptr && reading.document.find(*env, name) != nullptr) {
      reading.wrong(key, "the variable " + std::string(name) + " is in env and in secrets; remove one of the two");
    } else {
      read_secret(reading, map ? reading.document.value(node, i) : key, name, io);
    }
  }
}

void read_env(Reading& reading, const Node& node, std::vector<EnvEntry>& io) {
  if (Document::size(node) > kMostVariables) {
    reading.wrong(node, "env has " + std::to_string(Document::size(node)) + " variables; at most 1000 are allowed");
    return;
  }
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    const Node& key = reading.document.key(node, i);
    const Node& value = reading.document.value(node, i);
    const std::string_view name = reading.text(key);
    if (!check_env_name(reading, key)) {
      continue;
    } else if (value.kind == Node::Kind::kMap) {
      read_secret(reading, value, name, io);
    } else if (value.kind != Node::Kind::kScalar || reading.document.is_null(value)) {
      reading.wrong(value, "the variable " + std::string(name) + " is " + reading.found(value) +
                               "; it must be a text, \"\" if it is to be empty, or {secret: NAME}");
    } else if (reading.text(value).find('\0') != std::string_view::npos) {
      reading.wrong(value, "the variable " + std::string(name) + " contains a zero byte");
    } else {
      set_entry(io, {std::string(name), &value, {}});
    }
  }
}

}  // namespace

void read_named(Reading& reading, const Node& node, std::vector<model::NamedAmount>& io) {
  io.clear();
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    const Node& key = reading.document.key(node, i);
    const Node& value = reading.document.value(node, i);
    const std::string_view name = reading.text(key);
    const std::int64_t count =
        value.kind == Node::Kind::kScalar ? parse_decimal(reading.text(value), 0).value_or(0) : 0;
    if (name.empty() || printable(name, name.size()) != name) {
      reading.wrong(key, "the name of a resource must be printable and not empty");
    } else if (count < 1 || count > kMostNamed) {
      reading.wrong(value, "the resource '" + printable(name, 40) + "' is " + reading.found(value) +
                               "; it must be a whole number from 1 to " + std::to_string(kMostNamed));
    } else {
      io.push_back({std::string(name), count});
    }
  }
  std::sort(io.begin(), io.end());
}

void read_amounts(const Fields& fields, model::Amounts& io) {
  for (const model::AmountKind& kind : model::kAmountKinds) {
    switch (kind.unit) {
      case model::AmountUnit::kThousandths:
        fields.cpu_millis(kind.name, io.*kind.member);
        break;
      case model::AmountUnit::kBytes:
        fields.bytes(kind.name, io.*kind.member);
        break;
      case model::AmountUnit::kCount:
        fields.integer(kind.name, 0, kMostNamed, io.*kind.member);
        break;
    }
  }
}

void read_gpu(Reading& reading, const Node& node, model::DeviceRequest& io) {
  const Fields gpu(reading, node, keys().gpu);
  const bool counted = gpu.integer("count", 0, model::kMostDevices, io.count);
  gpu.text("type", io.model);
  gpu.bytes("memory", io.memory_bytes);
  if (!counted && io.count == 0) io.count = 1;  // A request that names a model or a memory size asks for one device.
  if (io.count == 0) io = {};
}

void read_common(Reading& reading, const Fields& fields, StageDefaults& io) {
  if (const Node* resources = fields.map("resources")) read_resources(reading, *resources, io);
  if (const Node* retry = fields.map("retry")) read_retry(reading, *retry, io.retry);
  fields.integer("max_attempts", 1, 1'000, io.retry.max_attempts);
  fields.duration_ms("timeout", io.timeout_ms);
  const Node* env = fields.map("env");
  if (env != nullptr) read_env(reading, *env, io.env);
  if (const Node* secrets = fields.find("secrets")) read_secrets(reading, *secrets, env, io.env);
  std::string unused;
  if (fields.text("dir", unused, 4096)) io.dir = fields.find("dir");
}

}  // namespace rota::workflow
