// Reading a file that describes a fleet. See workflow/fleet_file.h.
#include "workflow/fleet_file.h"

#include <algorithm>
#include <map>

#include "base/json_text.h"
#include "workflow/stage.h"

namespace rota::workflow {
namespace {

constexpr std::int64_t kMicro = 1'000'000;

class FleetReader {
 public:
  FleetReader(const Document& document, Problems& problems, FleetFile& out) : reading_{document, problems}, out_(out) {}

  void run() {
    const Node& root = reading_.document.root();
    const Fields file(reading_, root, keys().fleet);
    if (root.kind != Node::Kind::kMap) return;
    for (const auto& [key, must_be] :
         {std::pair("apiVersion", kApiVersion), std::pair("kind", std::string_view("Fleet"))}) {
      const Node* node = file.find(key);
      if (node == nullptr || (node->kind == Node::Kind::kScalar && reading_.text(*node) == must_be)) continue;
      reading_.wrong(*node, std::string(key) + " is " + reading_.found(*node) + "; it must be " + std::string(must_be) +
                                ", or be left out");
    }
    const Node* workers = file.find("workers");
    if (workers == nullptr) {
      if (reading_.document.find(root, "workers") == nullptr)
        reading_.wrong(root, "workers is missing; it must be a list of workers");
      return;
    }
    if (workers->kind != Node::Kind::kList || Document::size(*workers) == 0) {
      reading_.wrong(*workers, "workers is " +
                                   (workers->kind == Node::Kind::kList ? "empty" : reading_.found(*workers)) +
                                   "; it must be a list of workers");
      return;
    }
    for (std::size_t i = 0; i < Document::size(*workers); ++i) worker(reading_.document.item(*workers, i));
    if (const Node* named = file.map("named")) read_named(reading_, *named, out_.named);
  }

 private:
  void worker(const Node& node) {
    const Fields fields(reading_, node, keys().worker);
    if (node.kind != Node::Kind::kMap) return;
    model::WorkerSpec spec;
    if (!fields.text("name", spec.name, 128)) {
      if (reading_.document.find(node, "name") == nullptr) reading_.wrong(node, "the worker has no name");
      spec.name.clear();
    } else if (printable(spec.name, spec.name.size()) != spec.name) {
      reading_.wrong(*fields.find("name"), "the name contains characters that cannot be printed");
    }
    spec.resources.cpu_millis = 1000;
    read_amounts(fields, spec.resources);
    if (const Node* named = fields.map("named")) read_named(reading_, *named, spec.resources.named);
    if (const Node* gpu = fields.map("gpu")) {
      model::DeviceRequest devices;
      read_gpu(reading_, *gpu, devices);
      spec.resources.gpus.assign(static_cast<std::size_t>(devices.count), {devices.model, devices.memory_bytes});
    }
    fields.text("zone", spec.zone);
    fields.text("endpoint", spec.endpoint);
    fields.decimal("cost_per_hour", 6, 0, 9'000 * kMicro, spec.cost_microdollars_per_hour);
    fields.decimal("power_watts", 3, 0, 1'000'000'000, spec.power_milliwatts);
    fields.texts("capabilities", spec.capabilities);
    std::vector<std::pair<std::string, std::string>> labels;
    fields.pairs("labels", labels);
    for (auto& [key, value] : labels) spec.labels.push_back({std::move(key), std::move(value)});
    std::sort(spec.labels.begin(), spec.labels.end());

    std::int64_t count = 1;
    const bool counted = fields.integer("count", 1, static_cast<std::int64_t>(kMostWorkers), count);
    if (static_cast<std::size_t>(count) > kMostWorkers - out_.workers.size()) {
      reading_.wrong(node, "with this, the fleet has more than 100000 workers");
      return;
    }
    for (std::int64_t i = 1; i <= count; ++i) {
      model::WorkerSpec one = spec;
      if (counted) one.name.append("-").append(std::to_string(i));
      add(node, std::move(one));
    }
  }

  void add(const Node& node, model::WorkerSpec spec) {
    const auto [first, added] = lines_.try_emplace(spec.name, node.at.line);
    if (!added && !spec.name.empty()) {
      reading_.wrong(node,
                     "the name '" + spec.name + "' is taken by the worker in line " + std::to_string(first->second));
    }
    out_.workers.push_back(std::move(spec));
  }

  Reading reading_;
  FleetFile& out_;
  std::map<std::string, std::uint32_t> lines_{};
};

}  // namespace

FleetFile read_fleet(const Source& source) {
  FleetFile out;
  Problems problems;
  if (const std::optional<Document> document = Document::read(source.text, problems)) {
    FleetReader(*document, problems, out).run();
  }
  out.problems = problems.take();
  return out;
}

}  // namespace rota::workflow
