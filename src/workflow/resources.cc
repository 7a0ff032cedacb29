// The keys that spec and a stage have in common: what a task needs, and how often it is tried.
#include <algorithm>

#include "base/json_text.h"
#include "workflow/stage.h"

namespace rota::workflow {
namespace {

constexpr std::int64_t kMostGpus = 64;
constexpr std::int64_t kMostBackoffMs = 1'000LL * 3600 * 24 * 10;

void read_hardware(Reading& reading, const Node& node, model::Requirements& io) {
  const Fields hardware(reading, node, keys().hardware);
  hardware.cpu_millis("cpu", io.cpu_millis);
  hardware.bytes("memory", io.memory_bytes);
  if (const Node* gpu = hardware.map("gpu")) read_gpu(reading, *gpu, io.gpu);
}

void read_resources(Reading& reading, const Node& node, StageDefaults& io) {
  const Fields resources(reading, node, keys().resources);
  if (const Node* hardware = resources.map("hardware")) read_hardware(reading, *hardware, io.needs);
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

void read_env(Reading& reading, const Node& node, std::vector<EnvEntry>& io) {
  if (Document::size(node) > kMostVariables) {
    reading.wrong(node, "env has " + std::to_string(Document::size(node)) + " variables; the most is 1000");
    return;
  }
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    const Node& key = reading.document.key(node, i);
    const Node& value = reading.document.value(node, i);
    const std::string_view name = reading.text(key);
    if (!is_env_name(name)) {
      reading.wrong(key, "'" + printable(name, 40) +
                             "' cannot be the name of a variable; use letters, digits and _, and no digit first");
    } else if (name.starts_with("ROTA_")) {
      reading.wrong(key,
                    "the variable " + printable(name, 40) + " cannot be set: those that start with ROTA_ are Rota's");
    } else if (value.kind != Node::Kind::kScalar || reading.document.is_null(value)) {
      reading.wrong(value, "the variable " + std::string(name) + " is " + reading.found(value) +
                               "; it must be a text, \"\" if it is to be empty");
    } else if (reading.text(value).find('\0') != std::string_view::npos) {
      reading.wrong(value, "the variable " + std::string(name) + " has a zero byte in it");
    } else {
      const auto found = std::find_if(io.begin(), io.end(), [&](const EnvEntry& entry) { return entry.name == name; });
      if (found != io.end()) {
        found->value = &value;
      } else {
        io.push_back({std::string(name), &value});
      }
    }
  }
}

}  // namespace

void read_gpu(Reading& reading, const Node& node, model::GpuNeed& io) {
  const Fields gpu(reading, node, keys().gpu);
  const bool counted = gpu.integer("count", 0, kMostGpus, io.count);
  gpu.text("type", io.model);
  gpu.bytes("memory", io.memory_bytes);
  if (!counted && io.count == 0) io.count = 1;  // Who says what kind of device wants one.
  if (io.count == 0) io = {};
}

void read_common(Reading& reading, const Fields& fields, StageDefaults& io) {
  if (const Node* resources = fields.map("resources")) read_resources(reading, *resources, io);
  if (const Node* retry = fields.map("retry")) read_retry(reading, *retry, io.retry);
  fields.integer("max_attempts", 1, 1'000, io.retry.max_attempts);
  fields.duration_ms("timeout", io.timeout_ms);
  if (const Node* env = fields.map("env")) read_env(reading, *env, io.env);
  std::string unused;
  if (fields.text("dir", unused, 4096)) io.dir = fields.find("dir");
}

}  // namespace rota::workflow
