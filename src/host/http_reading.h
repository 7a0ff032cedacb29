// What the handlers that read share.
//
// Thread safety: functions without state.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fleet/state.h"
#include "host/follower.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "net/http.h"
#include "rota/result.h"

namespace rota::host {

[[nodiscard]] Error no_such(std::string_view kind, std::string_view name);
// NotFound.
[[nodiscard]] Result<const fleet::Task*> find_task(const fleet::State& state, const std::string& name);
void count_state(StateCounts& counts, const fleet::Task& task);

[[nodiscard]] inline net::HttpResponse state_response(std::string body, std::uint64_t index) {
  net::HttpResponse response = json_response(200, std::move(body));
  response.fields.push_back({"Rota-Index", std::to_string(index)});
  return response;
}

// Reads the state, and answers with what `look` filled in, or with the error that it returned.
template <class View, class Look>
Result<net::HttpResponse> answer(const HttpCall& call, Look look) {
  View view;
  Result<void> found;
  ROTA_TRY_ASSIGN(const std::uint64_t index,
                  read_state(call, [&](const fleet::State& state) { found = look(state, view); }));
  ROTA_TRY(std::move(found));
  if constexpr (requires { view.next_cursor; }) view.index = index;
  return state_response(to_view_json(view), index);
}

// The same; if the client accepts an answer that is a little older (`fresh_ms`), it may get one that was made before.
template <class View, class Look>
Result<net::HttpResponse> answer_shared(const HttpCall& call, Look look) {
  const std::optional<std::uint64_t> fresh_ms = call.integer("fresh_ms");
  if (!fresh_ms || call.integer("at") || call.integer("wait_index")) return answer<View>(call, std::move(look));
  ReadCache& cache = call.services.reads;
  const auto known = [&] {
    return cache.find(call.request.target, call.services.wall_ns() - static_cast<std::int64_t>(*fresh_ms) * 1'000'000);
  };
  if (const auto found = known()) return state_response(found->body, found->index);
  const std::lock_guard<fiber::Mutex> computing(cache.computing());
  if (const auto found = known()) return state_response(found->body, found->index);
  ROTA_TRY_ASSIGN(net::HttpResponse response, answer<View>(call, std::move(look)));
  cache.keep(call.request.target, {response.body, call.services.host.follower().index(), call.services.wall_ns()});
  return response;
}

}  // namespace rota::host
