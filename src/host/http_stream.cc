// Handlers for machines: events, metrics, probes.
#include <array>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "rota/version.h"

namespace rota::host {

namespace {

constexpr std::chrono::seconds kHeartbeat{15};
constexpr std::size_t kMostPiece = std::size_t{64} << 10;

bool accepts(const HttpCall& call, std::string_view type) {
  const std::string* accept = call.request.field("accept");
  return accept != nullptr && accept->find(type) != std::string::npos;
}

// Where a stream begins: from=, the Last-Event-ID of a client that reconnects, or the next new record.
Result<std::uint64_t> stream_start(const HttpCall& call) {
  if (const std::string* last = call.request.field("last-event-id"); last != nullptr) {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(last->data(), last->data() + last->size(), id);
    if (error != std::errc() || end != last->data() + last->size() || id == UINT64_MAX) {
      return Error{ErrorCode::kInvalidArgument, "Last-Event-ID must be the number of a record"};
    }
    return id + 1;
  }
  return call.integer("from").value_or(call.services.host.follower().index() + 1);
}

net::HttpResponse stream_events(HttpCall& call, std::uint64_t from, bool sse) {
  net::HttpResponse response;
  response.fields = {{"Content-Type", sse ? "text/event-stream" : "application/x-ndjson"}, {"X-Accel-Buffering", "no"}};
  response.stream = [&tail = call.services.tail, next = from, sse](net::HttpBodyWriter& writer) mutable {
    const LogTail::Stream counted(tail);
    // Something at once, so that the client sees that the stream is open.
    if (!writer.write(sse ? ": from " + std::to_string(next) + "\n\n" : "\n").ok()) return false;
    for (;;) {
      const Result<LogTail::Lines> lines = tail.wait_lines(next, kHeartbeat);
      if (!lines.ok()) {
        if (lines.code() != ErrorCode::kTimeout) return false;
        if (!writer.write(sse ? ": wait\n\n" : "\n").ok()) return false;
        continue;
      }
      std::string piece;
      for (const std::shared_ptr<const LogTail::Line>& line : *lines) {
        if (sse) {
          piece.append("id: ").append(std::to_string(line->index)).append("\nevent: record\ndata: ");
          piece.append(line->json).append("\n\n");
        } else {
          piece.append(line->json).append("\n");
        }
        next = line->index + 1;
        if (piece.size() < kMostPiece) continue;
        if (!writer.write(piece).ok()) return false;
        piece.clear();
      }
      if (!writer.write(piece).ok()) return false;
    }
  };
  return response;
}

// Prometheus text, version 0.0.4.
class MetricText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  }
  void value(std::uint64_t number) { text_.append(name_).append(" ").append(std::to_string(number)).append("\n"); }
  // The values of the label are ours: none needs an escape.
  void value(std::string_view label, std::string_view of, std::uint64_t number) {
    text_.append(name_).append("{").append(label).append("=\"").append(of).append("\"} ");
    text_.append(std::to_string(number)).append("\n");
  }
  void counter(std::string_view name, std::string_view help, std::uint64_t number) {
    family(name, "counter", help);
    value(number);
  }
  void gauge(std::string_view name, std::string_view help, std::uint64_t number) {
    family(name, "gauge", help);
    value(number);
  }
  template <class E>
  void counters(std::string_view name, std::string_view help, std::string_view label, const LogCounters::By<E>& by) {
    family(name, "counter", help);
    for (std::size_t i = 0; i < by.size(); ++i) value(label, enum_names(E{})[i], by[i]);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
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

void write_gauges(MetricText& text, const Gauges& gauges) {
  text.family("rota_tasks", "gauge", "Tasks of the workflows that are kept, by state.");
  for (std::size_t i = 0; i < gauges.tasks.size(); ++i) {
    text.value("state", state_name(static_cast<graph::TaskState>(i)), gauges.tasks[i]);
  }
  text.family("rota_workflows", "gauge", "Workflows that are kept, by outcome.");
  for (std::size_t i = 0; i < gauges.workflows.size(); ++i) {
    text.value("outcome", to_string(static_cast<fleet::Outcome>(i)), gauges.workflows[i]);
  }
  text.family("rota_workers", "gauge", "Workers, by status.");
  for (std::size_t i = 0; i < gauges.workers.size(); ++i) {
    text.value("status", to_string(static_cast<fleet::WorkerStatus>(i)), gauges.workers[i]);
  }
  text.gauge("rota_workers_elastic_disabled", "Workers that the elastic coordinator has disabled.",
             gauges.elastic_disabled);
  text.gauge("rota_ready_tasks", "Tasks that wait for a place.", gauges.ready);
  text.gauge("rota_unfinished_tasks", "Tasks that have not ended.", gauges.unfinished);
}

void write_counters(MetricText& text, const LogCounters& counters) {
  text.gauge("rota_log_index", "The last record that the counters include.", counters.index);
  text.counter("rota_log_records_total", "Records that were counted.", counters.records);
  text.counter("rota_log_records_missed_total", "Records that were compacted before they could be counted.",
               counters.missed);
  text.counter("rota_workflows_accepted_total", "Workflows that were accepted.", counters.workflows_accepted);
  text.counters<fleet::Outcome>("rota_workflows_ended_total", "Workflows that ended, by outcome.", "outcome",
                                counters.workflows_ended);
  text.counters<fleet::Why>("rota_dispatches_total", "Executions that were sent to a worker, by reason of the choice.",
                            "why", counters.assignments);
  text.counter("rota_tasks_merged_total", "Tasks that ran in the execution of another task.", counters.merged);
  text.counter("rota_reuse_hits_total", "Items in the cache of the chosen worker, summed over dispatches.",
               counters.reuse_hits);
  text.counter("rota_tasks_succeeded_total", "Tasks that ran and succeeded.", counters.succeeded);
  text.counter("rota_tasks_skipped_total", "Tasks that were skipped.", counters.skipped);
  text.counter("rota_tasks_cancelled_total", "Tasks that were cancelled.", counters.cancelled);
  text.counter("rota_preemptions_total", "Tasks that were told to stop for another task.", counters.preempted);
  text.counters<model::FailureKind>("rota_tasks_failed_total", "Tasks that failed, by kind.", "kind", counters.failed);
  text.counters<fleet::RequeueReason>("rota_requeues_total", "Attempts that were given back, by reason.", "reason",
                                      counters.requeues);
  text.counters<fleet::WorkerChange>("rota_worker_changes_total", "Changes of workers, by kind.", "change",
                                     counters.worker_changes);
}

}  // namespace

namespace routes {

Result<net::HttpResponse> events(HttpCall& call) {
  LogTail& tail = call.services.tail;
  const std::uint64_t last = call.services.host.follower().index();
  const bool sse = accepts(call, "text/event-stream");
  const bool lines = !sse && accepts(call, "application/x-ndjson");
  std::uint64_t from = call.integer("from").value_or(tail.first_index());
  if (sse || lines) {
    ROTA_TRY_ASSIGN(from, stream_start(call));
  }
  if (from == 0) from = 1;
  if (from > last + 1) {
    return Error{ErrorCode::kNotFound,
                 "there is no record " + std::to_string(from) + " yet; the last is " + std::to_string(last)}
        .with("last", std::to_string(last));
  }
  const std::size_t limit = static_cast<std::size_t>(std::max<std::uint64_t>(call.integer("limit").value_or(100), 1));
  ROTA_TRY_ASSIGN(const LogTail::Lines page, tail.lines(from, sse || lines ? 1 : limit));  // Closed, 410: compacted.
  if (sse || lines) return stream_events(call, from, sse);
  EventPage view;
  view.index = last;
  for (const std::shared_ptr<const LogTail::Line>& line : page) view.items.push_back({line->json});
  if (!page.empty() && page.back()->index < last) view.next_cursor = std::to_string(page.back()->index + 1);
  return json_response(200, to_view_json(view));
}

Result<net::HttpResponse> metrics(HttpCall& call) {
  Gauges gauges;
  const Result<std::uint64_t> read =
      call.services.host.follower().read([&](const fleet::State& state) { gauges = gauges_of(state); });
  if (!read.ok()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
  MetricText text;
  text.family("rota_build_info", "gauge", "The version of the host.");
  text.value("version", library_version_text(), 1);
  write_gauges(text, gauges);
  write_counters(text, call.services.tail.counters());
  const net::HttpStats stats = call.services.stats();
  text.gauge("rota_http_connections", "Open connections.", stats.open);
  text.counter("rota_http_connections_total", "Connections that were accepted.", stats.connections);
  text.counter("rota_http_connections_refused_total", "Connections above the limit.", stats.turned_away);
  text.counter("rota_http_requests_total", "Requests.", stats.requests);
  text.counter("rota_http_requests_invalid_total", "Requests that were not HTTP, too large or too slow.",
               stats.refused);
  text.counter("rota_http_failed_logins_total", "Requests without a valid token.", call.services.failures.total());
  text.gauge("rota_http_event_streams", "Streams of events.", call.services.tail.streams());
  net::HttpResponse response;
  response.fields = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}};
  response.body = text.take();
  return response;
}

Result<net::HttpResponse> live(HttpCall&) { return json_response(200, to_view_json(HealthView{"live"})); }

Result<net::HttpResponse> ready(HttpCall& call) {
  if (call.services.refusing.load()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
  // Its copy of the state is complete as far as the log went at the start.
  if (!call.services.host.follower().read([](const fleet::State&) {}, 0, std::chrono::milliseconds(1)).ok()) {
    return Error{ErrorCode::kUnavailable, "the host is reading its log"};
  }
  return json_response(200, to_view_json(HealthView{"ready"}));
}

Result<net::HttpResponse> version(HttpCall& call) {
  return json_response(
      200, to_view_json(VersionView{std::string(library_version_text()), "v1", call.services.host.follower().index(),
                                    call.services.tail.first_index()}));
}

Result<net::HttpResponse> specification(HttpCall&) {
  static const std::string text = openapi_json();
  return json_response(200, text);
}

}  // namespace routes

}  // namespace rota::host
