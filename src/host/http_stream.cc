// Handlers for machines: events, metrics, probes.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "host/follower.h"
#include "host/http_metrics.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "rota/fiber/time.h"
#include "rota/version.h"

namespace rota::host {

namespace {

constexpr std::chrono::seconds kHeartbeat{15};
constexpr std::chrono::milliseconds kTickEvery{200};
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

// The index of the newest record, whenever there is a newer one, at most every kTickEvery: for pages that read again
// what they show. It costs the same however busy the host is.
net::HttpResponse stream_index(HttpCall& call, std::uint64_t from) {
  net::HttpResponse response;
  response.fields = {{"Content-Type", "text/event-stream"}, {"X-Accel-Buffering", "no"}};
  response.stream = [&follower = call.services.host.follower(), next = from](net::HttpBodyWriter& writer) mutable {
    if (!writer.write(": from " + std::to_string(next) + "\n\n").ok()) return false;
    for (;;) {
      const Result<void> reached = follower.wait_for(next, kHeartbeat);
      if (!reached.ok() && reached.code() != ErrorCode::kTimeout) return false;
      if (!reached.ok()) {
        if (!writer.write(": wait\n\n").ok()) return false;
        continue;
      }
      const std::string index = std::to_string(follower.index());
      next = follower.index() + 1;
      if (!writer.write("id: " + index + "\nevent: index\ndata: " + index + "\n\n").ok()) return false;
      if (!fiber::sleep_for(kTickEvery).ok()) return false;
    }
  };
  return response;
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
  if (sse && call.text("only").value_or("records") == "index") return stream_index(call, std::min(from, last + 1));
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
  ROTA_TRY_ASSIGN(const std::vector<Metric> collected, collect_metrics(call.services));
  net::HttpResponse response;
  response.fields = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}};
  response.body = to_prometheus(collected);
  return response;
}

Result<net::HttpResponse> live(HttpCall&) { return json_response(200, to_view_json(HealthView{"live"})); }

Result<net::HttpResponse> ready(HttpCall& call) {
  if (call.services.refusing.load()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
  // Its copy of the state is complete as far as the log went at the start.
  if (!call.services.host.follower().read([](const fleet::State&) {}, 0, std::chrono::milliseconds(1)).ok()) {
    return Error{ErrorCode::kUnavailable, "the host is reading its log"};
  }
  ROTA_TRY(call.services.host.check_writable());
  return json_response(200, to_view_json(HealthView{"ready"}));
}

Result<net::HttpResponse> version(HttpCall& call) {
  return json_response(
      200, to_view_json(VersionView{std::string(library_version_text()), "v1", call.services.host.follower().index(),
                                    call.services.tail.first_index(), call.services.host.is_read_only(),
                                    call.services.host.check_leads().ok() ? "leader" : "follower",
                                    call.services.host.leader_url()}));
}

Result<net::HttpResponse> specification(HttpCall&) {
  static const std::string text = openapi_json();
  return json_response(200, text);
}

}  // namespace routes

}  // namespace rota::host
