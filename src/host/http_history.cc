// The handler for the past as a curve: tasks that ran, and that waited for which reason, all over the log (W-1).
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/state.h"
#include "host/history.h"
#include "host/http_reading.h"
#include "rota/fiber/blocking.h"

namespace rota::host {

namespace {

constexpr std::uint64_t kDefaultPoints = 200;

// The first record at or after this time, by bisection; `last` if there is none.
Result<std::uint64_t> first_after(LogTail& tail, std::int64_t wall_ns, std::uint64_t first, std::uint64_t last) {
  while (first < last) {
    const std::uint64_t middle = first + (last - first) / 2;
    ROTA_TRY_ASSIGN(const fleet::Record record, tail.record(middle));
    if (record.wall_ns >= wall_ns) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return last;
}

Result<HistoryView> compute(HttpServices& services, History::Query query, std::int64_t ended_ns, HistoryView view) {
  query.first = std::max({query.first, services.tail.first_index(), std::uint64_t{1}});
  if (ended_ns > 0) {
    ROTA_TRY_ASSIGN(query.last, first_after(services.tail, ended_ns, query.first, query.last));
  }
  ROTA_TRY_ASSIGN(const std::vector<History::Point> points,
                  services.history.read(services.tail, services.ledger, query));
  view.complete = !points.empty() && points.front().index == query.first;
  for (const History::Point& point : points) {
    view.points.push_back({point.index, point.wall_ns / 1'000'000, point.values});
  }
  return view;
}

}  // namespace

namespace routes {

Result<net::HttpResponse> get_history(HttpCall& call) {
  HttpServices& services = call.services;
  HistoryView view;
  History::Query query;
  query.most = static_cast<std::size_t>(std::max<std::uint64_t>(call.integer("points").value_or(kDefaultPoints), 2));
  std::int64_t ended_ns = 0;
  const std::optional<std::string> name = call.text("workflow");
  bool known = !name;
  ROTA_TRY_ASSIGN(query.last, read_state(call, [&](const fleet::State& state) {
                    const std::optional<model::WorkflowId> id = name ? model::WorkflowId::parse(*name) : std::nullopt;
                    const fleet::Workflow* workflow = id ? state.find(*id) : nullptr;
                    if (workflow == nullptr) return;
                    known = true;
                    query.workflow = *id;
                    query.first = workflow->accepted_in;
                    ended_ns = workflow->ended_ns;
                    for (const model::Stage& stage : workflow->spec.stages) {
                      if (view.lanes.size() < History::kMostLanes) view.lanes.push_back(stage.name);
                    }
                  }));
  if (!known) return no_such("workflow", *name);
  view.kinds = History::kinds();
  const auto since_ns = [&] {
    return services.wall_ns() - static_cast<std::int64_t>(call.integer("fresh_ms").value_or(0)) * 1'000'000;
  };
  // One at a time, so that any number of open pages costs one helper thread at most.
  const std::lock_guard<fiber::Mutex> computing(services.history.computing());
  // A client that waited for a record must see it.
  const std::uint64_t least = call.integer("wait_index") ? query.last : 0;
  if (const auto found = services.reads.find(call.request.target, since_ns()); found && found->index >= least) {
    return state_response(found->body, found->index);
  }
  ROTA_TRY_ASSIGN(const HistoryView made,
                  fiber::blocking([&] { return compute(services, query, ended_ns, std::move(view)); }));
  net::HttpResponse response = state_response(to_view_json(made), query.last);
  services.reads.keep(call.request.target, {response.body, query.last, services.wall_ns()});
  return response;
}

}  // namespace routes

}  // namespace rota::host
