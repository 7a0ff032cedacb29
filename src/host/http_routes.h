// The routes of the HTTP interface: one table, from which dispatch, the check of roles and parameters, /openapi.json,
// docs/api.md and the tests are derived (H-1).
//
// A route that is in the table works; what does not exist yet is not in it. Handlers are in http_read.cc (lists and
// single objects), http_overview.cc and http_run.cc (pictures), http_log.cc (the log, output of tasks), http_past.cc
// (decisions, queue, density), http_write.cc (submissions and control), http_admin.cc (tokens), http_secrets.cc,
// http_files.cc, http_schedules.cc, http_stream.cc (events, metrics, probes) and http_page.cc (the dashboard).
//
// Thread safety: the table is constant; handlers are called by many tasks at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/sync.h"
#include "host/file_uploads.h"
#include "host/history.h"
#include "host/host.h"
#include "host/http_tokens.h"
#include "host/log_tail.h"
#include "host/read_cache.h"
#include "host/worker_access.h"
#include "ledger/ledger.h"
#include "net/http.h"
#include "net/http_server.h"
#include "rota/fiber/sync.h"
#include "rota/graph/task.h"
#include "rota/result.h"

namespace rota::host {

enum class Access : std::uint8_t {
  kOpen,    // Without a token: probes.
  kRead,    // Any role.
  kSubmit,  // submit and admin.
  kOwner,   // admin; submit for workflows of the token's user.
  kAdmin,
  kWorker,  // The identity of a worker; if the path names one, of that worker.
  kFiles,   // Any role, and every worker.
  kJoin,    // A join token.
};

struct HttpParameter {
  enum class In : std::uint8_t { kPath, kQuery, kHeader };
  enum class Type : std::uint8_t { kText, kInteger, kChoice };
  std::string_view name{};
  In in = In::kQuery;
  std::string_view meaning{};
  Type type = Type::kText;
  std::uint64_t most = UINT64_MAX;          // kInteger.
  std::vector<std::string_view> choices{};  // kChoice.
};

struct HttpReply {
  int status = 200;
  std::string_view meaning{};
  std::string_view type = "application/json";
  std::string_view schema{};             // The name of a schema; empty: none.
  void (*write)(JsonWriter&) = nullptr;  // Writes the schema.
};

// What handlers use. All of it outlives the server.
struct HttpServices {
  Host& host;
  LogTail& tail;
  ledger::Ledger& ledger;
  std::string logs;       // The folder with the output of tasks.
  std::string density;    // The file of H-3; empty: it is not written.
  std::string tokens;     // The file of the tokens.
  std::string ca_sha256;  // Of the CA that join tokens name; empty: none.
  std::string secrets;    // The folder of the secrets that workers may ask for; empty: none.
  WorkerGrants grants;
  std::function<std::int64_t()> wall_ns;  // For tokens and explanations.
  std::function<net::HttpStats()> stats;  // Of the server.
  FailedAttempts& failures;
  sync::Atomic<bool> refusing{false};    // The host is stopping: no more submissions.
  sync::Atomic<bool> replaying{false};   // One replay at a time.
  ReadCache reads{};                     // For answer_shared().
  History history{};                     // For get_history().
  fiber::Semaphore large_reads{4};       // Pages of the log and snapshots in memory at the same time.
  fiber::Mutex granting{};               // One worker joins at a time.
  std::unique_ptr<FileUploads> files{};  // The store of files; null: none.
};

struct HttpCall {
  HttpServices& services;
  const net::HttpRequest& request;
  const Credential* who = nullptr;  // Null for an open route.
  std::vector<std::string> path{};  // The values of {...} in the path, in order.
  std::string request_id{};         // Of the client, or one of ours; the response has it as X-Request-Id.

  // The value of a query parameter, or nothing. The table has checked it.
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view name) const;
};

struct HttpRoute {
  std::string_view method{};
  std::string_view path{};  // "/v1/workflows/{id}"
  Access access = Access::kRead;
  std::string_view operation{};  // The operationId.
  std::string_view summary{};
  std::vector<HttpParameter> parameters{};
  std::vector<std::string_view> accepts{};  // Types of the request's body; empty: no body.
  std::string_view body_schema{};           // The schema of a JSON body, if it has one.
  std::vector<HttpReply> replies{};
  std::uint64_t most_bytes = 0;  // Of the body; 0: as for its type.
  bool logged = true;            // A request that changes something is in the log of the host.
  bool decides = false;          // Asks the brain for a decision, which only the leader of several hosts makes.
  std::vector<int> errors{};     // Statuses beside 400, 401, 403 and 503, which every route may answer.
  Result<net::HttpResponse> (*handler)(HttpCall& call) = nullptr;
};

// Bodies of workflows, as a file may be large; and of everything else.
inline constexpr std::uint64_t kMostWorkflowBytes = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kMostOtherBytes = std::uint64_t{4} << 10;

inline constexpr std::uint64_t kMostPieceBytes = std::uint64_t{1} << 20;  // Of the content of a file.

[[nodiscard]] std::span<const HttpRoute> http_routes();

struct HttpMatch {
  const HttpRoute* route = nullptr;  // Null if none has this path and method.
  std::vector<std::string> path{};   // The values of {...}.
  std::string allow{};               // The methods of the path: "GET, HEAD".
};
[[nodiscard]] HttpMatch match_route(std::string_view method, std::string_view path);
// InvalidArgument for an unknown or repeated parameter, or a value that the table does not allow.
[[nodiscard]] Result<void> check_parameters(const HttpRoute& route, const net::HttpRequest& request);

// The specification (OpenAPI 3.1), and the page docs/api.md.
[[nodiscard]] std::string openapi_json();
[[nodiscard]] std::string api_page();

// --- For handlers ---

[[nodiscard]] net::HttpResponse json_response(int status, std::string body);
// An RFC 9457 problem. The error's detail "status" overrides the status of its code.
[[nodiscard]] net::HttpResponse problem_response(const Error& error);

// "running": as the command line writes it in JSON.
[[nodiscard]] std::string state_name(graph::TaskState state);

// Calls look(state) with the state that the request asks for (at=, wait_index=, wait=), from the follower's copy, and
// returns the index that it reflects.
[[nodiscard]] Result<std::uint64_t> read_state(const HttpCall& call, const Follower::Look& look);

namespace routes {
Result<net::HttpResponse> list_workflows(HttpCall& call);
Result<net::HttpResponse> get_workflow(HttpCall& call);
Result<net::HttpResponse> list_tasks(HttpCall& call);
Result<net::HttpResponse> get_task(HttpCall& call);
Result<net::HttpResponse> get_result(HttpCall& call);
Result<net::HttpResponse> explain_task(HttpCall& call);
Result<net::HttpResponse> list_workers(HttpCall& call);
Result<net::HttpResponse> get_worker(HttpCall& call);
Result<net::HttpResponse> get_overview(HttpCall& call);
Result<net::HttpResponse> get_history(HttpCall& call);
Result<net::HttpResponse> replay(HttpCall& call);
Result<net::HttpResponse> get_graph(HttpCall& call);
Result<net::HttpResponse> get_timeline(HttpCall& call);
Result<net::HttpResponse> list_attempts(HttpCall& call);
Result<net::HttpResponse> page(HttpCall& call);
Result<net::HttpResponse> page_file(HttpCall& call);

Result<net::HttpResponse> get_log(HttpCall& call);
Result<net::HttpResponse> get_snapshot(HttpCall& call);
Result<net::HttpResponse> get_task_logs(HttpCall& call);

Result<net::HttpResponse> list_audit(HttpCall& call);
Result<net::HttpResponse> list_decisions(HttpCall& call);
Result<net::HttpResponse> list_queue(HttpCall& call);
Result<net::HttpResponse> get_density(HttpCall& call);

Result<net::HttpResponse> list_tokens(HttpCall& call);
Result<net::HttpResponse> make_token(HttpCall& call);
Result<net::HttpResponse> delete_token(HttpCall& call);
Result<net::HttpResponse> rotate_token(HttpCall& call);
Result<net::HttpResponse> join_worker(HttpCall& call);
Result<net::HttpResponse> renew_worker(HttpCall& call);
Result<net::HttpResponse> get_secret(HttpCall& call);

Result<net::HttpResponse> get_file(HttpCall& call);
Result<net::HttpResponse> put_file(HttpCall& call);
Result<net::HttpResponse> check_file(HttpCall& call);

Result<net::HttpResponse> submit_workflow(HttpCall& call);
Result<net::HttpResponse> validate_workflow(HttpCall& call);
Result<net::HttpResponse> set_priority(HttpCall& call);
Result<net::HttpResponse> pause(HttpCall& call);
Result<net::HttpResponse> resume(HttpCall& call);
Result<net::HttpResponse> cancel(HttpCall& call);
Result<net::HttpResponse> retry(HttpCall& call);
Result<net::HttpResponse> forget_workflow(HttpCall& call);
Result<net::HttpResponse> drain_worker(HttpCall& call);
Result<net::HttpResponse> enable_worker(HttpCall& call);
Result<net::HttpResponse> disable_worker(HttpCall& call);
Result<net::HttpResponse> elastic_worker(HttpCall& call);

Result<net::HttpResponse> list_schedules(HttpCall& call);
Result<net::HttpResponse> set_schedule(HttpCall& call);
Result<net::HttpResponse> pause_schedule(HttpCall& call);
Result<net::HttpResponse> resume_schedule(HttpCall& call);
Result<net::HttpResponse> remove_schedule(HttpCall& call);

Result<net::HttpResponse> events(HttpCall& call);
Result<net::HttpResponse> metrics(HttpCall& call);
Result<net::HttpResponse> live(HttpCall& call);
Result<net::HttpResponse> ready(HttpCall& call);
Result<net::HttpResponse> version(HttpCall& call);
Result<net::HttpResponse> specification(HttpCall& call);
}  // namespace routes

}  // namespace rota::host
