// /openapi.json and docs/api.md, from the table of routes.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "host/http_routes.h"
#include "host/http_views.h"
#include "rota/version.h"

namespace rota::host {

namespace {

using In = HttpParameter::In;
using Type = HttpParameter::Type;

// Every route may answer these.
constexpr std::array<int, 3> kAlways{400, 401, 403};
constexpr int kUnavailable = 503;

std::string_view role_of(Access access) {
  switch (access) {
    case Access::kOpen:
      return "none";
    case Access::kRead:
      return "read";
    case Access::kSubmit:
      return "submit";
    case Access::kOwner:
      return "submit (own workflows), admin";
    case Access::kAdmin:
      return "admin";
    case Access::kWorker:
      return "worker (its own identity)";
    case Access::kFiles:
      return "read, worker";
    case Access::kJoin:
      return "join";
  }
  return "";
}

std::vector<int> error_statuses(const HttpRoute& route) {
  std::vector<int> statuses(route.errors);
  if (route.access == Access::kOpen) {
    statuses.insert(statuses.end(), {400, 403});
  } else {
    statuses.insert(statuses.end(), kAlways.begin(), kAlways.end());
    statuses.push_back(429);
  }
  statuses.push_back(kUnavailable);
  std::sort(statuses.begin(), statuses.end());
  statuses.erase(std::unique(statuses.begin(), statuses.end()), statuses.end());
  return statuses;
}

void write_parameters(JsonWriter& json, const HttpRoute& route) {
  json.key("parameters").begin_array();
  for (const HttpParameter& parameter : route.parameters) {
    json.begin_object().field("name", parameter.name);
    json.field("in", parameter.in == In::kPath ? "path" : parameter.in == In::kQuery ? "query" : "header");
    json.field("description", parameter.meaning);
    json.field("required", parameter.in == In::kPath);
    json.key("schema").begin_object();
    if (parameter.type == Type::kInteger) {
      json.field("type", "integer").field("minimum", 0);
      // Beyond 2^53 the numbers of many readers are no longer exact.
      if (parameter.most < (std::uint64_t{1} << 53)) json.field("maximum", parameter.most);
    } else {
      json.field("type", "string");
      if (parameter.in == In::kPath) json.field("minLength", 1);
    }
    if (parameter.type == Type::kChoice) {
      json.key("enum").begin_array();
      for (const std::string_view choice : parameter.choices) json.value(choice);
      json.end_array();
    }
    json.end_object().end_object();
  }
  json.end_array();
}

void write_content(JsonWriter& json, std::string_view type, std::string_view schema) {
  json.key(type).begin_object().key("schema").begin_object();
  if (!schema.empty()) {
    json.field("$ref", "#/components/schemas/" + std::string(schema));
  } else if (type != "application/json") {
    json.field("type", "string");
  } else {
    json.field("type", "object");
  }
  json.end_object().end_object();
}

void write_body(JsonWriter& json, const HttpRoute& route) {
  if (route.accepts.empty()) return;
  json.key("requestBody").begin_object().field("required", true).key("content").begin_object();
  for (const std::string_view type : route.accepts) write_content(json, type, route.body_schema);
  json.end_object().end_object();
}

void write_responses(JsonWriter& json, const HttpRoute& route) {
  json.key("responses").begin_object();
  std::map<int, std::vector<const HttpReply*>> by_status;
  for (const HttpReply& reply : route.replies) by_status[reply.status].push_back(&reply);
  for (const auto& [status, replies] : by_status) {
    json.key(std::to_string(status)).begin_object().field("description", replies.front()->meaning);
    json.key("headers").begin_object().key("Rota-Index").begin_object();
    json.field("description", "the record of the log that the response reflects");
    json.key("schema").begin_object().field("type", "integer").end_object().end_object().end_object();
    json.key("content").begin_object();
    for (const HttpReply* reply : replies) write_content(json, reply->type, reply->schema);
    json.end_object().end_object();
  }
  for (const int status : error_statuses(route)) {
    json.key(std::to_string(status)).begin_object().field("description", net::http_reason(status));
    json.key("content").begin_object();
    write_content(json, "application/problem+json", ProblemView::kSchema);
    json.end_object().end_object();
  }
  json.end_object();
}

void write_schemas(JsonWriter& json) {
  std::map<std::string_view, void (*)(JsonWriter&)> schemas;
  for (const HttpRoute& route : http_routes()) {
    for (const HttpReply& reply : route.replies) {
      if (reply.write != nullptr) schemas[reply.schema] = reply.write;
    }
  }
  schemas[ProblemView::kSchema] = &write_schema<ProblemView>;
  schemas[PriorityView::kSchema] = &write_schema<PriorityView>;
  schemas[ReplayRequestView::kSchema] = &write_schema<ReplayRequestView>;
  schemas[TokenRequestView::kSchema] = &write_schema<TokenRequestView>;
  schemas[RotateRequestView::kSchema] = &write_schema<RotateRequestView>;
  schemas[JoinRequestView::kSchema] = &write_schema<JoinRequestView>;
  schemas[RenewRequestView::kSchema] = &write_schema<RenewRequestView>;
  json.key("schemas").begin_object();
  for (const auto& [name, write] : schemas) {
    json.key(name);
    write(json);
  }
  json.end_object();
}

std::string_view tag_of(const HttpRoute& route) {
  if (route.path.find("/workflows") != std::string_view::npos || route.path == "/v1/validate") return "workflows";
  if (route.path.find("/tasks") != std::string_view::npos) return "tasks";
  if (route.path.find("/workers") != std::string_view::npos) return "workers";
  return "host";
}

}  // namespace

std::string openapi_json() {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("openapi", "3.1.0");
  json.key("info").begin_object().field("title", "Rota").field("version", library_version_text());
  json.field("description", "The HTTP interface of a Rota host.");
  json.key("license").begin_object().field("name", "see LICENSE").field("identifier", "LicenseRef-Rota").end_object();
  json.end_object();
  json.key("servers").begin_array().begin_object().field("url", "/").end_object().end_array();
  json.key("tags").begin_array();
  for (const std::string_view tag : {"workflows", "tasks", "workers", "host"}) {
    json.begin_object().field("name", tag).end_object();
  }
  json.end_array();
  std::map<std::string_view, std::vector<const HttpRoute*>> by_path;
  for (const HttpRoute& route : http_routes()) by_path[route.path].push_back(&route);
  json.key("paths").begin_object();
  for (const auto& [path, routes] : by_path) {
    json.key(path).begin_object();
    for (const HttpRoute* route : routes) {
      std::string method(route->method);
      std::transform(method.begin(), method.end(), method.begin(),
                     [](char c) { return static_cast<char>(c - 'A' + 'a'); });
      json.key(method).begin_object().field("operationId", route->operation);
      // The first sentence, and all of them.
      json.field("summary", route->summary.substr(0, route->summary.find(". "))).field("description", route->summary);
      json.key("tags").begin_array().value(tag_of(*route)).end_array();
      json.field("x-rota-role", role_of(route->access));
      json.key("security").begin_array();
      if (route->access != Access::kOpen) json.begin_object().key("token").begin_array().end_array().end_object();
      json.end_array();
      write_parameters(json, *route);
      write_body(json, *route);
      write_responses(json, *route);
      json.end_object();
    }
    json.end_object();
  }
  json.end_object();
  json.key("components").begin_object();
  json.key("securitySchemes").begin_object().key("token").begin_object();
  json.field("type", "http").field("scheme", "bearer").end_object().end_object();
  write_schemas(json);
  json.end_object().end_object();
  return out;
}

std::string api_page() {
  std::string page =
      "# The routes of the HTTP interface\n\n"
      "This page is generated from the table in `src/host/http_routes.cc`, as is `/openapi.json`; a test compares "
      "them.\n"
      "[http.md](http.md) explains how to switch the interface on, tokens and conventions.\n\n"
      "| method and path | role | what it does |\n|---|---|---|\n";
  for (const HttpRoute& route : http_routes()) {
    page.append("| ").append(route.method).append(" `").append(route.path).append("` | ").append(role_of(route.access));
    page.append(" | ").append(route.summary).append(" |\n");
  }
  for (const HttpRoute& route : http_routes()) {
    page.append("\n## ").append(route.method).append(" ").append(route.path).append("\n\n").append(route.summary);
    page.append(" Role: ").append(role_of(route.access)).append(".\n");
    if (!route.parameters.empty()) page.append("\n| parameter | in | meaning |\n|---|---|---|\n");
    for (const HttpParameter& parameter : route.parameters) {
      page.append("| `").append(parameter.name).append("` | ");
      page.append(parameter.in == In::kPath ? "path" : parameter.in == In::kQuery ? "query" : "header");
      page.append(" | ").append(parameter.meaning);
      if (parameter.type == Type::kChoice) {
        page.append(": ");
        for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
          page.append(i == 0 ? "" : ", ").append(parameter.choices[i]);
        }
      }
      page.append(" |\n");
    }
    if (!route.accepts.empty()) {
      page.append("\nBody: ");
      for (std::size_t i = 0; i < route.accepts.size(); ++i) {
        page.append(i == 0 ? "`" : ", `").append(route.accepts[i]).append("`");
      }
      page.append(".\n");
    }
    page.append("\n| status | answer |\n|---|---|\n");
    for (const HttpReply& reply : route.replies) {
      page.append("| ").append(std::to_string(reply.status)).append(" | ").append(reply.meaning).append(" `");
      page.append(reply.type).append("`");
      if (!reply.schema.empty()) page.append(" ").append(reply.schema);
      page.append(" |\n");
    }
    page.append("| ");
    const std::vector<int> statuses = error_statuses(route);
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      page.append(i == 0 ? "" : ", ").append(std::to_string(statuses[i]));
    }
    page.append(" | a Problem |\n");
  }
  return page;
}

}  // namespace rota::host
