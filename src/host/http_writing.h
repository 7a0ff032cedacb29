// What the handlers that change something share (http_write.cc).
//
// Thread safety: functions without state.
#pragma once

#include "fleet/command.h"
#include "fleet/event.h"
#include "host/http_routes.h"
#include "net/http.h"
#include "rota/result.h"
#include "workflow/workflow.h"

namespace rota::host {

// Executes the command in the name of the caller, and returns when the caller's next read sees its effect.
[[nodiscard]] Result<fleet::Events> execute(HttpCall& call, fleet::Command command);
// {"index": ...}
[[nodiscard]] net::HttpResponse done(HttpCall& call);
// The workflow in the body; a file with problems is a result as well.
[[nodiscard]] Result<workflow::WorkflowFile> read_body(const HttpCall& call);
// 400 with the place of every problem. REQUIRES: there is one.
[[nodiscard]] net::HttpResponse file_problem(const workflow::WorkflowFile& file);

}  // namespace rota::host
