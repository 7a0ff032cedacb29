// Handlers that explain the host's work: decisions from the log, the queue, and the density of H-3.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "fleet/explain.h"
#include "fleet/state.h"
#include "fleet/text.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "host/log_follower.h"
#include "model/json.h"
#include "rota/fiber/blocking.h"

namespace rota::host {

namespace {

constexpr std::uint64_t kDefaultLimit = 100;
constexpr std::uint64_t kBlock = 256;           // Records read at a time.
constexpr std::uint64_t kMostRecords = 20'000;  // Records, or tasks, that one request examines.
constexpr std::size_t kMostDensityBytes = std::size_t{16} << 20;

// A place within the log: the events of a record, from the last to the first.
struct Place {
  std::uint64_t record = 0;
  std::size_t events = 0;  // How many of its events are still to be shown.

  [[nodiscard]] std::string to_string() const { return std::to_string(record) + "." + std::to_string(events); }
  static std::optional<Place> parse(std::string_view text) {
    Place place;
    const char* const last = text.data() + text.size();
    const auto [dot, error] = std::from_chars(text.data(), last, place.record);
    if (error != std::errc() || dot == last || *dot != '.' || place.record == 0) return std::nullopt;
    const auto [end, second] = std::from_chars(dot + 1, last, place.events);
    if (second != std::errc() || end != last) return std::nullopt;
    return place;
  }
};

Error bad_cursor() {
  return Error{ErrorCode::kInvalidArgument, "the cursor is not one that this host gave; begin without it"}.with(
      "parameter", "cursor");
}

template <class Page>
net::HttpResponse page_response(Page page, std::uint64_t index) {
  page.index = index;
  net::HttpResponse response = json_response(200, to_view_json(page));
  response.fields.push_back({"Rota-Index", std::to_string(index)});
  return response;
}

DecisionView decision_view(const fleet::Record& record, const fleet::TaskAssigned& assigned,
                           const std::map<model::WorkerId, std::string>& names) {
  DecisionView view;
  view.record = record.index;
  view.time = {record.wall_ns};
  view.task = assigned.task.to_string();
  view.attempt = assigned.attempt.value();
  const auto name = names.find(assigned.worker);
  view.worker = name == names.end() ? assigned.worker.to_string() : name->second;  // It has left since.
  view.queued = assigned.queued;
  for (const model::AttemptId& member : assigned.members) view.members.push_back(member.task.to_string());
  view.why = std::string(to_string(assigned.reasoning.why));
  view.reasoning = {fleet::fields_to_json(assigned.reasoning)};
  return view;
}

// What a user's command is about, and what it does where its name does not say so.
struct TargetOf {
  AuditView& view;
  void operator()(const fleet::Control& c) const {
    name(c.workflow, c.task);
    view.action = std::string(to_string(c.action));
  }
  void operator()(const fleet::SetPriority& c) const {
    name(c.workflow, c.task);
    view.action = std::to_string(c.priority);
  }
  void operator()(const fleet::ForgetWorkflow& c) const { view.target = c.workflow.to_string(); }
  void operator()(const fleet::SubmitWorkflow& c) const { view.target = c.workflow.name; }
  void operator()(const fleet::DrainWorker& c) const { view.target = c.worker; }
  void operator()(const fleet::SetWorkerEnabled& c) const {
    view.target = c.worker;
    view.action = !c.enabled ? "disable" : c.held ? "enable" : "elastic";
  }
  void operator()(const fleet::SetQuota& c) const { view.target = c.user; }
  void operator()(const fleet::SetSchedule& c) const { view.target = c.schedule.name; }
  void operator()(const fleet::ChangeSchedule& c) const {
    view.target = c.name;
    view.action = to_string(c.change);
  }
  void operator()(const auto&) const {}

 private:
  void name(model::WorkflowId workflow, model::TaskId task) const {
    view.target = task.is_none() ? workflow.to_string() : task.to_string();
  }
};

AuditView audit_view(const fleet::Record& record) {
  AuditView view;
  view.record = record.index;
  view.time = {record.wall_ns};
  view.user = record.origin.user;
  view.token = record.origin.token;
  view.request = record.origin.request;
  view.command = std::visit([](const auto& c) { return std::string(c.kName); }, record.command);
  std::visit(TargetOf{view}, record.command);
  for (const fleet::Event& event : record.events) {
    if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event))
      view.target = accepted->workflow.to_string();
  }
  return view;
}

std::size_t limit_of(const HttpCall& call) {
  return static_cast<std::size_t>(std::max<std::uint64_t>(call.integer("limit").value_or(kDefaultLimit), 1));
}

}  // namespace

namespace routes {

Result<net::HttpResponse> list_decisions(HttpCall& call) {
  std::map<model::WorkerId, std::string> names;
  ROTA_TRY_ASSIGN(const std::uint64_t index, read_state(call, [&](const fleet::State& state) {
                    state.each_worker([&](const fleet::Worker& worker) { names[worker.id] = worker.spec.name; });
                  }));
  Place place{index, SIZE_MAX};
  if (const std::optional<std::string> cursor = call.text("cursor")) {
    const std::optional<Place> parsed = Place::parse(*cursor);
    if (!parsed || parsed->record > index) return bad_cursor();
    place = *parsed;
  }
  std::optional<model::WorkflowId> workflow;
  if (const std::optional<std::string> name = call.text("workflow")) {
    workflow = model::WorkflowId::parse(*name);
    if (!workflow) return Error{ErrorCode::kNotFound, "there is no workflow '" + printable(*name) + "' here"};
  }
  const std::optional<std::string> worker = call.text("worker");
  const std::size_t limit = limit_of(call);
  DecisionPage page;
  const std::uint64_t first = std::max<std::uint64_t>(call.services.tail.first_index(), 1);
  for (std::uint64_t examined = 0; place.record >= first; examined += kBlock) {
    if (examined >= kMostRecords) {
      page.next_cursor = place.to_string();
      return page_response(std::move(page), index);
    }
    const std::uint64_t from = std::max(first, place.record >= kBlock ? place.record - kBlock + 1 : 1);
    ROTA_TRY_ASSIGN(const std::vector<fleet::Record> records, call.services.tail.records(from, place.record));
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      std::size_t at = std::min(record->index == place.record ? place.events : SIZE_MAX, record->events.size());
      for (; at > 0; --at) {
        const auto* assigned = std::get_if<fleet::TaskAssigned>(&record->events[at - 1]);
        if (assigned == nullptr || (workflow && assigned->task.workflow() != *workflow)) continue;
        if (page.items.size() == limit) {
          page.next_cursor = Place{record->index, at}.to_string();
          return page_response(std::move(page), index);
        }
        DecisionView view = decision_view(*record, *assigned, names);
        if (!worker || view.worker == *worker) page.items.push_back(std::move(view));
      }
    }
    place = {from - 1, SIZE_MAX};
  }
  return page_response(std::move(page), index);
}

Result<net::HttpResponse> list_audit(HttpCall& call) {
  ROTA_TRY_ASSIGN(const std::uint64_t index, read_state(call, [](const fleet::State&) {}));
  std::uint64_t last = index;
  if (const std::optional<std::string> cursor = call.text("cursor")) {
    const std::optional<Place> parsed = Place::parse(*cursor);
    if (!parsed || parsed->record > index) return bad_cursor();
    last = parsed->record;
  }
  const std::optional<std::string> user = call.text("user");
  const std::size_t limit = limit_of(call);
  AuditPage page;
  const std::uint64_t first = std::max<std::uint64_t>(call.services.tail.first_index(), 1);
  for (std::uint64_t examined = 0; last >= first; examined += kBlock) {
    if (examined >= kMostRecords) {
      page.next_cursor = Place{last, 0}.to_string();
      break;
    }
    const std::uint64_t from = std::max(first, last >= kBlock ? last - kBlock + 1 : 1);
    ROTA_TRY_ASSIGN(const std::vector<fleet::Record> records, call.services.tail.records(from, last));
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      if (record->origin.user.empty() || (user && record->origin.user != *user)) continue;
      if (page.items.size() == limit) {
        page.next_cursor = Place{record->index, 0}.to_string();
        return page_response(std::move(page), index);
      }
      page.items.push_back(audit_view(*record));
    }
    last = from - 1;
  }
  return page_response(std::move(page), index);
}

Result<net::HttpResponse> list_queue(HttpCall& call) {
  model::TaskId from(0);
  if (const std::optional<std::string> cursor = call.text("cursor")) {
    const std::optional<model::TaskId> parsed = model::TaskId::parse(*cursor);
    if (!parsed) return bad_cursor();
    from = *parsed;
  }
  const std::size_t limit = limit_of(call);
  QueuePage page;
  ROTA_TRY_ASSIGN(const std::uint64_t index, read_state(call, [&](const fleet::State& state) {
                    std::uint64_t examined = 0;
                    const std::int64_t now_ns = call.integer("at") ? 0 : call.services.wall_ns();
                    state.each_workflow([&](const fleet::Workflow& workflow) {
                      if (page.next_cursor || workflow.unfinished == 0 || workflow.id < from.workflow()) return;
                      for (const fleet::Task& task : workflow.tasks) {
                        const model::TaskId id = workflow.id_of(task);
                        if (id < from) continue;
                        if (page.items.size() == limit || ++examined > kMostRecords) {
                          page.next_cursor = id.to_string();
                          return;
                        }
                        if (task.state != fleet::TaskState::kReady) continue;
                        const Result<fleet::Explanation> why = fleet::explain(state, id, nullptr, now_ns);
                        QueueItemView item;
                        item.task = id.to_string();
                        item.name = workflow.name_of(task);
                        item.priority = task.priority;
                        item.ready_since = {task.since_ns};
                        if (why.ok()) {
                          item.reason = std::string(to_string(why->reason));
                          item.sentence = why->sentence;
                        }
                        page.items.push_back(std::move(item));
                      }
                    });
                  }));
  return page_response(std::move(page), index);
}

Result<net::HttpResponse> get_density(HttpCall& call) {
  const std::string& path = call.services.density;
  if (path.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the host does not record the density; set HOST_METRICS_ENABLE_DENSITY_PLOT=1 (host.density) and "
                 "start it again"};
  }
  ROTA_TRY_ASSIGN(const std::string text, fiber::blocking([&] { return read_file_part(path, 0, kMostDensityBytes); }));
  DensityView view;
  view.submissions.text = view.active_workers.text = "[]";
  if (!text.empty() && model::json_validate(text).ok() && model::json_kind(text) == model::JsonKind::kObject) {
    const std::string_view bucket = model::json_member(text, "bucket_sec");
    (void)std::from_chars(bucket.data(), bucket.data() + bucket.size(), view.bucket_sec);
    view.submissions.text = std::string(model::json_member(text, "submissions"));
    view.active_workers.text = std::string(model::json_member(text, "active_workers"));
  }
  return json_response(200, to_view_json(view));
}

}  // namespace routes

}  // namespace rota::host
