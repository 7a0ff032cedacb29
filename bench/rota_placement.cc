// The quality of the schedule (P-22): traces of workflows in WfFormat (github.com/wfcommons) are run by the brain on
// simulated workers. Each figure is a makespan over a bound, the mean over traces and fleets of 4, 16 and 64 slots.
//
// The traces are generated, in the shapes of well-known families, and written and read as WfFormat. With
// ROTA_TRACES=FOLDER, the *.json files of that folder are run instead.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <queue>
#include <sstream>
#include <string>
#include <vector>

#include "fleet/brain.h"
#include "model/json.h"
#include "rota.h"

namespace {

namespace fleet = rota::fleet;
namespace model = rota::model;
using bench::Figures;

struct TraceTask {
  std::string name;
  std::string type;
  std::int64_t run_ns = 0;
  std::vector<std::uint32_t> parents;
};
using Trace = std::vector<TraceTask>;  // Parents come first.

// ------------------------------------------------------------------------------------------------------ WfFormat

std::string text_of(std::string_view json) { return json.data() == nullptr ? "" : model::json_unescape(json); }

// "mProject_ID0000012" is of type "mProject".
std::string type_of(std::string name) {
  while (!name.empty() && std::string_view("0123456789_-.").find(name.back()) != std::string_view::npos) {
    name.pop_back();
  }
  if (name.ends_with("_ID") || name.ends_with("-ID")) name.resize(name.size() - 3);
  return name;
}

Trace read_trace(const std::string& text) {
  if (!model::json_validate(text).ok()) bench::fail("a trace is not JSON");
  const std::string_view workflow = model::json_member(text, "workflow");
  std::map<std::string, std::int64_t> run_ns;
  for (const auto& task :
       model::json_elements(model::json_member(model::json_member(workflow, "execution"), "tasks"))) {
    const double seconds = std::strtod(std::string(model::json_member(task, "runtimeInSeconds")).c_str(), nullptr);
    run_ns[text_of(model::json_member(task, "id"))] =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(seconds * 1e9));
  }
  struct Entry {
    std::string id;
    std::vector<std::string> parents;
  };
  std::vector<Entry> left;
  for (const auto& task :
       model::json_elements(model::json_member(model::json_member(workflow, "specification"), "tasks"))) {
    Entry& entry = left.emplace_back();
    entry.id = text_of(model::json_member(task, "id"));
    for (const auto& parent : model::json_elements(model::json_member(task, "parents"))) {
      entry.parents.push_back(text_of(parent));
    }
  }
  Trace trace;
  std::map<std::string, std::uint32_t> at;
  while (!left.empty()) {
    const std::size_t before = left.size();
    std::erase_if(left, [&](const Entry& entry) {
      const auto known = [&](const std::string& parent) { return at.contains(parent); };
      if (!std::all_of(entry.parents.begin(), entry.parents.end(), known)) return false;
      TraceTask task{entry.id, type_of(entry.id), run_ns.contains(entry.id) ? run_ns.at(entry.id) : 1, {}};
      for (const std::string& parent : entry.parents) task.parents.push_back(at.at(parent));
      at[entry.id] = static_cast<std::uint32_t>(trace.size());
      trace.push_back(std::move(task));
      return true;
    });
    if (left.size() == before) bench::fail("a trace has a cycle");
  }
  return trace;
}

std::string write_trace(const Trace& trace) {
  std::ostringstream specification;
  std::ostringstream execution;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const char* comma = i == 0 ? "" : ",";
    specification << comma << "{\"id\":\"" << trace[i].name << "\",\"parents\":[";
    for (std::size_t p = 0; p < trace[i].parents.size(); ++p) {
      specification << (p == 0 ? "" : ",") << '"' << trace[trace[i].parents[p]].name << '"';
    }
    specification << "]}";
    execution << comma << "{\"id\":\"" << trace[i].name << "\",\"runtimeInSeconds\":" << trace[i].run_ns / 1'000'000
              << "e-3}";
  }
  return "{\"schemaVersion\":\"1.5\",\"workflow\":{\"specification\":{\"tasks\":[" + specification.str() +
         "]},\"execution\":{\"tasks\":[" + execution.str() + "]}}}";
}

// ----------------------------------------------------------------------------------------------------- generated

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed * 2 + 1) {}

  // `scale` decides the number of tasks: about 20 times as many.
  Trace fork_join(std::uint32_t scale) {  // One wide stage with a heavy tail of run times, then one task.
    for (std::uint32_t i = 0; i < 20 * scale; ++i) add("decon", tailed(20, 12), {});
    add("sift", 30'000, all());
    return std::move(trace_);
  }
  Trace chains(std::uint32_t scale) {  // Independent chains of unequal length, then a merge.
    std::vector<std::uint32_t> ends;
    for (std::uint32_t i = 0; i < 3 * scale; ++i) {
      std::uint32_t last = add("split", tailed(5, 2), {});
      for (std::uint32_t k = 0; k < 2 + below(8); ++k) last = add("map", tailed(40, 4), {last});
      ends.push_back(last);
    }
    add("merge", 60'000, ends);
    return std::move(trace_);
  }
  Trace montage(std::uint32_t scale) {  // Projections, pairs of neighbours, one model, corrections, one sum.
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> pairs;
    std::vector<std::uint32_t> last;
    for (std::uint32_t i = 0; i < 6 * scale; ++i) first.push_back(add("project", tailed(15, 2), {}));
    for (std::uint32_t i = 0; i + 1 < first.size(); ++i)
      pairs.push_back(add("diff", tailed(2, 2), {first[i], first[i + 1]}));
    const std::uint32_t fit = add("model", 80'000, pairs);
    for (const std::uint32_t one : first) last.push_back(add("background", tailed(4, 2), {one, fit}));
    add("add", 120'000, last);
    return std::move(trace_);
  }
  Trace side_work(std::uint32_t scale) {  // Much short work beside a long spine that starts late in the file.
    for (std::uint32_t i = 0; i < 15 * scale; ++i) add("short", tailed(10, 2), {});
    std::uint32_t last = add("prepare", 20'000, {});
    for (std::uint32_t i = 0; i < 5; ++i) last = add("spine", 20'000 * scale / 2 + below(10'000), {last});
    return std::move(trace_);
  }
  Trace cycles(std::uint32_t scale) {  // Rounds of simulations of very different length, each followed by an analysis.
    std::vector<std::uint32_t> before;
    for (std::uint32_t round = 0; round < 4; ++round) {
      std::vector<std::uint32_t> now;
      for (std::uint32_t i = 0; i < 4 * scale; ++i) {
        std::vector<std::uint32_t> parents;
        if (!before.empty()) parents = {before[below(static_cast<std::uint32_t>(before.size()))]};
        const std::uint32_t run = add("simulate", tailed(60, 10), parents);
        now.push_back(add(below(4) == 0 ? "analyse_long" : "analyse", below(4) == 0 ? 90'000 : 3'000, {run}));
      }
      before = now;
    }
    return std::move(trace_);
  }
  Trace layers(std::uint32_t scale) {  // Layers with random edges.
    std::vector<std::uint32_t> before;
    for (std::uint32_t layer = 0; layer < 5; ++layer) {
      std::vector<std::uint32_t> now;
      for (std::uint32_t i = 0; i < 4 * scale; ++i) {
        std::vector<std::uint32_t> parents;
        for (std::uint32_t p = 0; p < 2 && !before.empty(); ++p) {
          parents.push_back(before[below(static_cast<std::uint32_t>(before.size()))]);
        }
        std::sort(parents.begin(), parents.end());
        parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
        now.push_back(
            add("layer" + std::string(1, static_cast<char>('a' + layer)), tailed(10 + 10 * layer, 5), parents));
      }
      before = now;
    }
    return std::move(trace_);
  }

 private:
  std::uint32_t below(std::uint32_t count) {
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>((random_ >> 33) % count);
  }
  // About `mean_s` seconds, in ms; one in ten takes `factor` times as long.
  std::int64_t tailed(std::uint32_t mean_s, std::uint32_t factor) {
    const std::int64_t ms = 500 * mean_s + below(1000 * mean_s + 1);
    return below(10) == 0 ? ms * factor : ms;
  }
  std::uint32_t add(const std::string& type, std::int64_t run_ms, std::vector<std::uint32_t> parents) {
    const auto at = static_cast<std::uint32_t>(trace_.size());
    trace_.push_back({type + "_" + std::to_string(at), type, run_ms * 1'000'000, std::move(parents)});
    return at;
  }
  std::vector<std::uint32_t> all() const {
    std::vector<std::uint32_t> every(trace_.size());
    for (std::uint32_t i = 0; i < every.size(); ++i) every[i] = i;
    return every;
  }

  std::uint64_t random_;
  Trace trace_;
};

std::vector<Trace> traces(std::uint64_t count) {
  std::vector<Trace> found;
  if (const char* folder = std::getenv("ROTA_TRACES"); folder != nullptr) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream in(file);
      std::ostringstream text;
      text << in.rdbuf();
      found.push_back(read_trace(text.str()));
    }
    if (found.empty()) bench::fail(std::string("no *.json in ROTA_TRACES=") + folder);
    return found;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto scale = static_cast<std::uint32_t>(3 + i % 7 * 3);
    Generator generator(i);
    Trace trace;
    switch (i % 6) {
      case 0:
        trace = generator.fork_join(scale);
        break;
      case 1:
        trace = generator.chains(scale);
        break;
      case 2:
        trace = generator.montage(scale);
        break;
      case 3:
        trace = generator.side_work(scale);
        break;
      case 4:
        trace = generator.cycles(scale);
        break;
      default:
        trace = generator.layers(scale);
        break;
    }
    found.push_back(read_trace(write_trace(trace)));
  }
  return found;
}

// ------------------------------------------------------------------------------------------------------ schedules

// The time of a task on a worker: `speed` is in thousandths.
std::int64_t run_on(const TraceTask& task, std::int64_t speed) { return task.run_ns / speed * 1000 + 1; }

// From the start of each task to the end of the workflow.
std::vector<double> paths(const Trace& trace) {
  std::vector<double> path(trace.size());
  for (std::size_t i = trace.size(); i > 0; --i) {
    path[i - 1] += static_cast<double>(trace[i - 1].run_ns);
    for (const std::uint32_t parent : trace[i - 1].parents) path[parent] = std::max(path[parent], path[i - 1]);
  }
  return path;
}

// max(critical path, work / slots)
double lower_bound(const Trace& trace, std::size_t slots) {
  double work = 0;
  for (const TraceTask& task : trace) work += static_cast<double>(task.run_ns);
  const std::vector<double> path = paths(trace);
  return std::max(*std::max_element(path.begin(), path.end()), work / static_cast<double>(slots));
}

// HEFT with exact times: by upward rank, each task in the first gap of the worker that finishes it first.
double heft(const Trace& trace, const std::vector<std::int64_t>& speeds) {
  const std::vector<double> rank = paths(trace);
  std::vector<std::size_t> order(trace.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank[a] > rank[b]; });
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> busy(speeds.size());  // Sorted.
  std::vector<std::int64_t> end(trace.size());
  std::int64_t last = 0;
  for (const std::size_t i : order) {
    std::int64_t ready = 0;
    for (const std::uint32_t parent : trace[i].parents) ready = std::max(ready, end[parent]);
    std::size_t best = 0;
    std::int64_t best_start = 0;
    std::int64_t best_end = -1;
    for (std::size_t w = 0; w < speeds.size(); ++w) {
      const std::int64_t run = run_on(trace[i], speeds[w]);
      std::int64_t start = ready;
      for (const auto& [from, to] : busy[w]) {
        if (start + run <= from) break;
        start = std::max(start, to);
      }
      if (best_end >= 0 && start + run >= best_end) continue;
      best = w;
      best_start = start;
      best_end = start + run;
    }
    end[i] = best_end;
    last = std::max(last, best_end);
    const std::pair<std::int64_t, std::int64_t> slot{best_start, best_end};
    busy[best].insert(std::upper_bound(busy[best].begin(), busy[best].end(), slot), slot);
  }
  return static_cast<double>(last);
}

// The brain with one worker per slot.
class Machine {
 public:
  Machine(fleet::Order order, const std::vector<std::int64_t>& speeds) : speeds_(speeds) {
    fleet::SetPolicy policy;
    policy.policy.order = order;
    policy.policy.aging_boost = 0;
    policy.policy.merge = false;
    must(policy);
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      fleet::RegisterWorker worker;
      worker.worker.name = "w" + std::to_string(i);
      worker.worker.resources.cpu_millis = 1000;
      worker.worker.resources.memory_bytes = speeds[i] << 24;  // Another kind for each speed.
      must(worker);
    }
  }

  // The makespan of one more run of the workflow.
  double run(const Trace& trace) {
    fleet::SubmitWorkflow submission;
    submission.workflow.name = "trace";
    std::map<std::string, std::int64_t> templates;
    for (const TraceTask& task : trace) {
      const auto [place, fresh] = templates.try_emplace(task.type, static_cast<std::int64_t>(templates.size()));
      if (fresh) {
        model::TaskTemplate& use = submission.workflow.templates.emplace_back();
        use.spec.type = task.type;
        use.spec.program = model::ProgramSpec{.shell = "true"};
      }
      model::Stage& stage = submission.workflow.stages.emplace_back();
      stage.name = task.name;
      stage.use = place->second;
      stage.needs = task.parents;
    }
    trace_ = &trace;
    now_ += 1'000'000'000;
    const std::int64_t start = now_;
    must(std::move(submission));
    while (!running_.empty()) {
      const Running done = running_.top();
      running_.pop();
      now_ = done.end_ns;
      fleet::ReportEnded report{done.id.task, done.id.attempt, {}};
      report.outcome.end = model::AttemptEnd::kSucceeded;
      report.outcome.started_ns = done.start_ns;
      report.outcome.ended_ns = done.end_ns;
      must(std::move(report));
    }
    if (brain_.state().unfinished_tasks() != 0) bench::fail("a workflow did not end");
    return static_cast<double>(now_ - start);
  }

 private:
  struct Running {
    std::int64_t end_ns;
    std::int64_t start_ns;
    model::AttemptId id;
    friend bool operator<(const Running& a, const Running& b) {
      return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.id.task > b.id.task;
    }
  };
  void must(fleet::Command command) {
    fleet::Record record;
    const auto result = brain_.execute(std::move(command), now_, record);
    if (!result.ok()) bench::fail(result.error().message);
    for (const fleet::Event& event : record.events) {
      const auto* assigned = std::get_if<fleet::TaskAssigned>(&event);
      if (assigned == nullptr) continue;
      const std::int64_t run = run_on((*trace_)[assigned->task.index()], speeds_[assigned->worker.value() - 1]);
      running_.push({now_ + run, now_, {assigned->task, assigned->attempt}});
    }
  }

  std::vector<std::int64_t> speeds_;
  fleet::Brain brain_;
  const Trace* trace_ = nullptr;
  std::priority_queue<Running> running_;
  std::int64_t now_ = 1'000'000'000;
};

// FIFO; by critical path in a first run, and with the times of an earlier run; HEFT with exact times, all over the
// lower bound. On a fleet of three speeds: a third run by critical path, and FIFO, over HEFT.
Figures placement(unsigned, std::uint64_t count) {
  Figures sums(6, 0.0);
  double runs = 0;
  const std::vector<Trace> all = traces(count);
  for (const Trace& trace : all) {
    for (const std::size_t slots : {4U, 16U, 64U}) {
      const std::vector<std::int64_t> equal(slots, 1000);
      std::vector<std::int64_t> mixed(slots);
      for (std::size_t i = 0; i < slots; ++i) mixed[i] = std::array<std::int64_t, 3>{1000, 2000, 4000}[i % 3];
      const double bound = lower_bound(trace, slots);
      sums[0] += Machine(fleet::Order::kFifo, equal).run(trace) / bound;
      Machine ours(fleet::Order::kCriticalPath, equal);
      sums[1] += ours.run(trace) / bound;
      sums[2] += ours.run(trace) / bound;
      sums[3] += heft(trace, equal) / bound;
      Machine fast(fleet::Order::kCriticalPath, mixed);
      fast.run(trace);
      fast.run(trace);
      const double best = heft(trace, mixed);
      sums[4] += fast.run(trace) / best;
      sums[5] += Machine(fleet::Order::kFifo, mixed).run(trace) / best;
      runs += 1;
    }
  }
  bench::expect(static_cast<std::uint64_t>(runs), 3 * all.size());
  for (double& sum : sums) sum /= runs;
  return sums;
}

constexpr std::array<bench::Work, 1> kWorks{{{"placement", 42, placement}}};

}  // namespace

std::span<const bench::Work> bench::rota_placement_works() { return kWorks; }
