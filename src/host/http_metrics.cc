#include "host/http_metrics.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/json_writer.h"
#include "base/time_histogram.h"
#include "fleet/state.h"
#include "fleet/usage.h"
#include "host/follower.h"
#include "host/host.h"
#include "host/log_tail.h"
#include "net/http_server.h"
#include "rota/version.h"

namespace rota::host {

namespace {

// A number of thousandths, millionths or billionths, without loss.
std::string decimal(std::uint64_t number, std::uint64_t part, int digits) {
  std::array<char, 48> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "%llu.%0*llu", static_cast<unsigned long long>(number / part), digits,
                    static_cast<unsigned long long>(number % part));
  return {text.data(), static_cast<std::size_t>(size)};
}
std::string seconds(std::uint64_t ns) { return decimal(ns, 1'000'000'000, 9); }

class MetricList {
 public:
  using Type = Metric::Type;
  void family(std::string_view name, Type type, std::string_view help) { all_.push_back({name, type, help, {}}); }
  void value(std::uint64_t number) { all_.back().samples.push_back({{}, {}, {}, std::to_string(number)}); }
  void value(std::string_view label, std::string_view of, std::string number) {
    all_.back().samples.push_back({{}, label, std::string(of), std::move(number)});
  }
  void value(std::string_view label, std::string_view of, std::uint64_t number) {
    value(label, of, std::to_string(number));
  }
  void counter(std::string_view name, std::string_view help, std::uint64_t number) {
    family(name, Type::kCounter, help);
    value(number);
  }
  void gauge(std::string_view name, std::string_view help, std::uint64_t number) {
    family(name, Type::kGauge, help);
    value(number);
  }
  template <class E>
  void counters(std::string_view name, std::string_view help, std::string_view label, const LogCounters::By<E>& by) {
    family(name, Type::kCounter, help);
    for (std::size_t i = 0; i < by.size(); ++i) value(label, enum_names(E{})[i], by[i]);
  }
  // Two totals: of workers that were busy, and of workers that were up.
  void used(std::string_view name, std::string_view help, std::string busy, std::string up) {
    family(name, Type::kCounter, help);
    value("workers", "busy", std::move(busy));
    value("workers", "up", std::move(up));
  }
  void histogram(std::string_view name, std::string_view help, const TimeHistogram::Reading& reading) {
    family(name, Type::kHistogram, help);
    std::vector<Metric::Sample>& samples = all_.back().samples;
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < TimeHistogram::kBoundsNs.size(); ++i) {
      count += reading.counts[i];
      const auto bound = static_cast<std::uint64_t>(TimeHistogram::kBoundsNs[i]);
      samples.push_back({"_bucket", "le", seconds(bound), std::to_string(count)});
    }
    count += reading.counts.back();
    samples.push_back({"_bucket", "le", "+Inf", std::to_string(count)});
    samples.push_back({"_sum", {}, {}, seconds(reading.sum_ns)});
    samples.push_back({"_count", {}, {}, std::to_string(count)});
  }
  std::vector<Metric> take() { return std::move(all_); }

 private:
  std::vector<Metric> all_;
};

struct Gauges {
  std::array<std::uint64_t, graph::kTaskStateCount> tasks{};
  std::array<std::uint64_t, 4> workflows{};
  std::array<std::uint64_t, 7> workers{};
  std::uint64_t elastic_disabled = 0;
  std::uint64_t ready = 0;
  std::uint64_t unfinished = 0;
};

Gauges gauges_of(const fleet::State& state) {
  Gauges gauges;
  state.each_workflow([&](const fleet::Workflow& workflow) {
    ++gauges.workflows[static_cast<std::size_t>(workflow.outcome)];
    for (const fleet::Task& task : workflow.tasks) ++gauges.tasks[static_cast<std::size_t>(task.state)];
  });
  state.each_worker([&](const fleet::Worker& worker) {
    ++gauges.workers[static_cast<std::size_t>(worker.status(state.policy().max_queue_per_worker))];
    if (worker.disabled_elastic) ++gauges.elastic_disabled;
  });
  gauges.ready = state.ready_tasks();
  gauges.unfinished = state.unfinished_tasks();
  return gauges;
}

void write_gauges(MetricList& list, const Gauges& gauges) {
  list.family("rota_tasks", MetricList::Type::kGauge, "Tasks of the workflows that are kept, by state.");
  for (std::size_t i = 0; i < gauges.tasks.size(); ++i) {
    list.value("state", state_name(static_cast<graph::TaskState>(i)), gauges.tasks[i]);
  }
  list.family("rota_workflows", MetricList::Type::kGauge, "Workflows that are kept, by outcome.");
  for (std::size_t i = 0; i < gauges.workflows.size(); ++i) {
    list.value("outcome", to_string(static_cast<fleet::Outcome>(i)), gauges.workflows[i]);
  }
  list.family("rota_workers", MetricList::Type::kGauge, "Workers, by status.");
  for (std::size_t i = 0; i < gauges.workers.size(); ++i) {
    list.value("status", to_string(static_cast<fleet::WorkerStatus>(i)), gauges.workers[i]);
  }
  list.gauge("rota_workers_elastic_disabled", "Workers that the elastic coordinator has disabled.",
             gauges.elastic_disabled);
  list.gauge("rota_ready_tasks", "Tasks that wait for a place.", gauges.ready);
  list.gauge("rota_unfinished_tasks", "Tasks that have not ended.", gauges.unfinished);
}

void write_counters(MetricList& list, const LogCounters& counters) {
  list.gauge("rota_log_index", "The last record that the counters include.", counters.index);
  list.counter("rota_log_records_total", "Records that were counted.", counters.records);
  list.counter("rota_log_records_missed_total", "Records that were compacted before they could be counted.",
               counters.missed);
  list.counter("rota_workflows_accepted_total", "Workflows that were accepted.", counters.workflows_accepted);
  list.counters<fleet::Outcome>("rota_workflows_ended_total", "Workflows that ended, by outcome.", "outcome",
                                counters.workflows_ended);
  list.counters<fleet::Why>("rota_dispatches_total", "Executions that were sent to a worker, by reason of the choice.",
                            "why", counters.assignments);
  list.counter("rota_tasks_merged_total", "Tasks that ran in the execution of another task.", counters.merged);
  list.counter("rota_reuse_hits_total", "Items in the cache of the chosen worker, summed over dispatches.",
               counters.reuse_hits);
  list.counter("rota_tasks_succeeded_total", "Tasks that ran and succeeded.", counters.succeeded);
  list.counter("rota_tasks_skipped_total", "Tasks that were skipped.", counters.skipped);
  list.counter("rota_tasks_cancelled_total", "Tasks that were cancelled.", counters.cancelled);
  list.counter("rota_preemptions_total", "Tasks that were told to stop for another task.", counters.preempted);
  list.counters<model::FailureKind>("rota_tasks_failed_total", "Tasks that failed, by kind.", "kind", counters.failed);
  list.counters<fleet::RequeueReason>("rota_requeues_total", "Attempts that were given back, by reason.", "reason",
                                      counters.requeues);
  list.counters<fleet::WorkerChange>("rota_worker_changes_total", "Changes of workers, by kind.", "change",
                                     counters.worker_changes);
}

std::uint64_t positive(std::int64_t number) { return number < 0 ? 0 : static_cast<std::uint64_t>(number); }

// Microdollars and millijoules.
void write_usage(MetricList& list, const fleet::Usage& usage) {
  const auto dollars = [](std::int64_t micro) { return decimal(positive(micro), 1'000'000, 6); };
  const auto joules = [](std::int64_t milli) { return decimal(positive(milli), 1'000, 3); };
  list.used("rota_cost_dollars_total",
            "The price of the workers (cost_per_hour), for the time in which they ran tasks (busy), and in which they "
            "were reachable and enabled (up).",
            dollars(usage.cost_busy_microdollars), dollars(usage.cost_up_microdollars));
  list.used("rota_energy_joules_total", "The energy of the workers at the power that they give (power_watts).",
            joules(usage.energy_busy_millijoules), joules(usage.energy_up_millijoules));
}

void write_http(MetricList& list, HttpServices& services) {
  const net::HttpStats stats = services.stats();
  list.gauge("rota_http_connections", "Open connections.", stats.open);
  list.counter("rota_http_connections_total", "Connections that were accepted.", stats.connections);
  list.counter("rota_http_connections_refused_total", "Connections above the limit.", stats.turned_away);
  list.counter("rota_http_requests_total", "Requests.", stats.requests);
  list.counter("rota_http_requests_invalid_total", "Requests that were not HTTP, too large or too slow.",
               stats.refused);
  list.counter("rota_http_failed_logins_total", "Requests without a valid token.", services.failures.total());
  list.gauge("rota_http_event_streams", "Streams of events.", services.tail.streams());
}

constexpr std::array<std::string_view, 3> kTypes = {"counter", "gauge", "histogram"};

}  // namespace

Result<std::vector<Metric>> collect_metrics(HttpServices& services) {
  Gauges gauges;
  Follower& follower = services.host.follower();
  const Result<std::uint64_t> read = follower.read([&](const fleet::State& state) { gauges = gauges_of(state); });
  if (!read.ok()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
  MetricList list;
  list.family("rota_build_info", MetricList::Type::kGauge, "The version of the host.");
  list.value("version", library_version_text(), 1);
  write_gauges(list, gauges);
  write_counters(list, services.tail.counters());
  write_usage(list, follower.usage(services.wall_ns()));
  list.histogram("rota_queue_wait_seconds", "The time from ready to assigned, of first attempts.", follower.waits());
  list.histogram("rota_decision_seconds", "The time that the host took to decide one command or message.",
                 services.host.decision_times());
  write_http(list, services);
  return list.take();
}

std::string to_prometheus(const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& metric : metrics) {
    text.append("# HELP ").append(metric.name).append(" ").append(metric.help).append("\n");
    text.append("# TYPE ").append(metric.name).append(" ").append(kTypes[static_cast<std::size_t>(metric.type)]);
    text.append("\n");
    for (const Metric::Sample& sample : metric.samples) {
      text.append(metric.name).append(sample.suffix);
      if (!sample.label.empty()) text.append("{").append(sample.label).append("=\"").append(sample.of).append("\"}");
      text.append(" ").append(sample.value).append("\n");
    }
  }
  return text;
}

std::string to_json(const std::vector<Metric>& metrics) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  for (const Metric& metric : metrics) {
    json.key(metric.name).begin_object();
    json.field("type", kTypes[static_cast<std::size_t>(metric.type)]).field("help", metric.help);
    json.key("samples").begin_array();
    for (const Metric::Sample& sample : metric.samples) {
      json.begin_object();
      if (!sample.suffix.empty()) json.field("part", sample.suffix.substr(1));
      if (!sample.label.empty()) json.field(sample.label, sample.of);
      json.key("value").raw(sample.value).end_object();
    }
    json.end_array().end_object();
  }
  json.end_object();
  return text + "\n";
}

}  // namespace rota::host
