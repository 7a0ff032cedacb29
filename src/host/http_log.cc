// Handlers that read what is not in the state: the log itself, and what tasks wrote.
#include "host/http_log.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "fleet/explain.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "host/log_follower.h"
#include "host/output_store.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::size_t kMostRecords = 10'000;
constexpr std::size_t kMostLogBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kLookEvery{200};  // Whether a task has written more.
constexpr int kLooksPerComment = 75;                  // A comment every 15 s.

// Holds one of the permits for large reads, until the piece is written.
class Permit {
 public:
  explicit Permit(fiber::Semaphore& permits) : permits_(permits) { permits_.acquire(); }
  ~Permit() { permits_.release(); }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  fiber::Semaphore& permits_;
};

// Whose log it is, and whether more may come.
struct TaskLog {
  model::AttemptId shown{};  // What the client asked for.
  model::AttemptId file{};   // Of merged tasks, the leading one's.
};

Result<TaskLog> find_log(const HttpCall& call) {
  const std::optional<model::TaskId> id = model::TaskId::parse(call.path[0]);
  bool there = false;
  model::AttemptNumber latest;
  std::uint64_t assigned_in = 0;
  ROTA_TRY(read_state(call, [&](const fleet::State& state) {
    const fleet::Task* task = id ? state.find(*id) : nullptr;
    there = task != nullptr;
    if (!there) return;
    latest = task->attempt;
    assigned_in = task->assigned_in;
  }));
  if (!there) return Error{ErrorCode::kNotFound, "there is no task '" + printable(call.path[0]) + "' here"};
  const std::uint64_t wanted = call.integer("attempt").value_or(latest.value());
  if (wanted > latest.value() || (wanted == 0 && call.integer("attempt"))) {
    return Error{ErrorCode::kNotFound, call.path[0] + " has no attempt " + std::to_string(wanted) + "; it has had " +
                                           std::to_string(latest.value())};
  }
  TaskLog log;
  log.shown = {*id, model::AttemptNumber(static_cast<std::uint32_t>(wanted))};
  log.file = log.shown;
  if (wanted != latest.value() || assigned_in == 0) return log;
  // Merged tasks run as one execution, whose output is the leading task's.
  if (const Result<fleet::Record> record = call.services.tail.record(assigned_in); record.ok()) {
    if (const fleet::TaskAssigned* assigned = fleet::find_assignment(*record, *id); assigned != nullptr) {
      log.file = {assigned->task, assigned->attempt};
    }
  }
  return log;
}

bool has_ended(const HttpServices& services, const model::AttemptId& id) {
  bool ended = true;
  const Result<std::uint64_t> read = services.host.follower().read([&](const fleet::State& state) {
    const fleet::Task* task = state.find(id.task);
    ended = task == nullptr || task->attempt > id.attempt || graph::is_terminal(task->state);
  });
  return !read.ok() || ended;
}

// How many of the bytes end with a complete character: the rest waits for the next piece.
std::size_t complete_bytes(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // In the middle of a character.
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

// Sends what a task writes until it has ended: as text, or as server-sent events with the byte offset as id.
class LogStream {
 public:
  LogStream(HttpServices& services, const TaskLog& log, std::uint64_t offset, bool sse)
      : services_(services), log_(log), sse_(sse), file_(services.logs + "/" + OutputStore::file_name(log.file)) {
    file_.skip(offset);
    sent_ = offset;
  }

  bool run(net::HttpBodyWriter& writer) {
    if (sse_ && !writer.write(": from " + std::to_string(sent_) + "\n\n").ok()) return false;
    for (int looks = 0;;) {
      // The state first and the file second: when a task has ended, all of its output is in the file.
      const bool ended = has_ended(services_, log_.shown);
      Result<std::string> bytes = fiber::blocking([&] { return ended ? file_.rest() : file_.more(); });
      if (!bytes.ok()) return false;
      if (!bytes->empty()) {
        looks = 0;
        if (!send(writer, *bytes)) return false;
        continue;
      }
      if (ended) return finish(writer);
      if (sse_ && ++looks % kLooksPerComment == 0 && !writer.write(": wait\n\n").ok()) return false;
      if (!fiber::sleep_for(kLookEvery).ok()) return false;
    }
  }

 private:
  bool send(net::HttpBodyWriter& writer, const std::string& bytes) {
    if (!sse_) return writer.write(bytes).ok();
    held_ += bytes;
    const std::size_t whole = complete_bytes(held_);
    if (whole == 0) return true;
    const bool written = event(writer, std::string_view(held_).substr(0, whole));
    held_.erase(0, whole);
    return written;
  }
  bool event(net::HttpBodyWriter& writer, std::string_view text) {
    // The follower may have gone back to the notice of what was dropped; ids never fall.
    sent_ = std::max(sent_ + text.size(),
                     file_.offset() - std::min<std::uint64_t>(held_.size() - text.size(), file_.offset()));
    std::string data;
    JsonWriter json(data);
    json.begin_object().field("text", text).end_object();
    return writer.write("id: " + std::to_string(sent_) + "\nevent: output\ndata: " + data + "\n\n").ok();
  }
  bool finish(net::HttpBodyWriter& writer) {
    if (!sse_) return true;
    if (!held_.empty() && !event(writer, std::exchange(held_, {}))) return false;
    return writer.write("event: end\ndata: {}\n\n").ok();
  }

  HttpServices& services_;
  const TaskLog log_;
  const bool sse_;
  LogFollower file_;
  std::uint64_t sent_ = 0;
  std::string held_;  // The first bytes of a character.
};

Result<std::uint64_t> log_offset(const HttpCall& call) {
  const std::string* last = call.request.field("last-event-id");
  if (last == nullptr) return call.integer("offset").value_or(0);
  std::uint64_t offset = 0;
  const auto [end, error] = std::from_chars(last->data(), last->data() + last->size(), offset);
  if (error != std::errc() || end != last->data() + last->size()) {
    return Error{ErrorCode::kInvalidArgument, "Last-Event-ID must be a byte offset"};
  }
  return offset;
}

}  // namespace

void append_log_record(std::string& body, std::string_view record) {
  const auto size = static_cast<std::uint32_t>(record.size());
  for (const int shift : {24, 16, 8, 0}) body.push_back(static_cast<char>(size >> shift & 0xff));
  body.append(record);
}

Result<std::vector<std::string_view>> split_log(std::string_view body) {
  std::vector<std::string_view> records;
  while (!body.empty()) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4 && i < body.size(); ++i) size = size << 8 | static_cast<std::uint8_t>(body[i]);
    if (body.size() < 4 || body.size() - 4 < size) {
      return Error{ErrorCode::kCorrupt, "the host sent a part of a record"};
    }
    records.push_back(body.substr(4, size));
    body.remove_prefix(4 + size);
  }
  return records;
}

namespace routes {

Result<net::HttpResponse> get_log(HttpCall& call) {
  HttpServices& services = call.services;
  const std::uint64_t from = std::max<std::uint64_t>(call.integer("from").value_or(1), 1);
  if (const std::optional<std::uint64_t> wait = call.integer("wait"); wait && *wait > 0) {
    const Result<void> reached = services.host.follower().wait_for(from, std::chrono::seconds(*wait));
    if (!reached.ok() && reached.code() != ErrorCode::kTimeout) {
      return Error{ErrorCode::kUnavailable, "the host is stopping"};
    }
  }
  const std::uint64_t last = services.ledger.last_index();
  if (from < services.ledger.first_index()) {
    return Error{ErrorCode::kClosed, "record " + std::to_string(from) +
                                         " was compacted; begin with /v1/log/snapshot and the record after it"}
        .with("first", std::to_string(services.ledger.first_index()));
  }
  const std::size_t most = std::min<std::uint64_t>(call.integer("limit").value_or(kMostRecords), kMostRecords);
  net::HttpResponse response;
  response.fields = {{"Content-Type", std::string(kLogType)}, {"Rota-Index", std::to_string(last)}};
  if (from > last || most == 0) return response;
  // Records may be large: few pages are in memory at the same time.
  response.stream = [&services, from, most](net::HttpBodyWriter& writer) {
    const Permit permit(services.large_reads);
    const Result<std::vector<ledger::RecordBytes>> records = services.ledger.read(from, most);
    if (!records.ok()) return false;
    std::string body;
    for (const ledger::RecordBytes& record : *records) append_log_record(body, record.bytes);
    return writer.write(body).ok();
  };
  return response;
}

Result<net::HttpResponse> get_snapshot(HttpCall& call) {
  HttpServices& services = call.services;
  const Permit permit(services.large_reads);
  ROTA_TRY_ASSIGN(std::optional<ledger::Snapshot> snapshot, services.ledger.latest_snapshot());
  if (!snapshot) return Error{ErrorCode::kNotFound, "there is no snapshot yet; /v1/log has every record"};
  net::HttpResponse response;
  response.fields = {{"Content-Type", std::string(kLogType)}, {"Rota-Index", std::to_string(snapshot->index)}};
  response.body = std::move(snapshot->bytes);
  return response;
}

Result<net::HttpResponse> get_task_logs(HttpCall& call) {
  ROTA_TRY_ASSIGN(const TaskLog log, find_log(call));
  ROTA_TRY_ASSIGN(std::uint64_t offset, log_offset(call));
  const std::string* accept = call.request.field("accept");
  const bool sse = accept != nullptr && accept->find("text/event-stream") != std::string::npos;
  net::HttpResponse response;
  response.fields = {{"Content-Type", sse ? "text/event-stream" : "text/plain; charset=utf-8"},
                     {"Rota-Attempt", std::to_string(log.shown.attempt.value())}};
  const std::string path = call.services.logs + "/" + OutputStore::file_name(log.file);
  std::error_code none;
  const std::uintmax_t there = std::filesystem::file_size(path, none);
  const std::uint64_t size = none ? 0 : there;
  const std::optional<std::uint64_t> tail = call.integer("tail");
  if (tail) {
    if (call.request.parameter("offset") != nullptr) {
      return Error{ErrorCode::kInvalidArgument, "the parameters 'tail' and 'offset' exclude each other"};
    }
    // Of a log of any size: the lines within its last part.
    const std::uint64_t from = size > kMostLogBytes ? size - kMostLogBytes : 0;
    ROTA_TRY_ASSIGN(const std::string bytes,
                    fiber::blocking([&] { return read_file_part(path, from, kMostLogBytes); }));
    const std::string_view lines = last_lines(bytes, static_cast<std::size_t>(*tail));
    offset = from + (bytes.size() - lines.size());
  }
  if (call.text("follow") == "1" || sse) {
    response.fields.push_back({"X-Accel-Buffering", "no"});
    response.stream = [stream = std::make_shared<LogStream>(call.services, log, offset, sse)](
                          net::HttpBodyWriter& writer) { return stream->run(writer); };
    return response;
  }
  const std::size_t most = std::min<std::uint64_t>(call.integer("bytes").value_or(kMostLogBytes), kMostLogBytes);
  ROTA_TRY_ASSIGN(response.body, fiber::blocking([&] { return read_file_part(path, offset, most); }));
  response.fields.push_back({"Rota-Log-Size", std::to_string(size)});
  response.fields.push_back({"Rota-Log-Next", std::to_string(offset + response.body.size())});
  return response;
}

}  // namespace routes

}  // namespace rota::host
