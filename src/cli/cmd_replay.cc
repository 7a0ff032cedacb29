// `rota replay [WHERE]`: decides every command of a log again and compares; and says what another policy would have
// done.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/log_source.h"
#include "cli/places.h"
#include "cli/policy_text.h"
#include "cli/progress_line.h"
#include "fleet/brain.h"
#include "fleet/explain_words.h"
#include "fleet/text.h"
#include "fleet/what_if.h"

namespace rota::cli {

namespace {

struct ReplayOptions {
  std::string where;
  std::vector<std::string> policies;
  bool json = false;
  bool no_verify = false;
};

struct Course {
  std::string name;
  std::string policy;  // As it was asked for; empty for the log's own.
  fleet::Figures figures;
};

struct Replay {
  std::uint64_t records = 0;
  std::uint64_t compacted = 0;  // Records that are gone; it began with the snapshot that stands for them.
  std::string hash;
  std::vector<Course> courses;
};

// What a person needs to see why the two differ: what was told, under which policy.
Error with_causes(Error error, const fleet::Record& record, const fleet::State& state) {
  const std::string policy = fleet::fields_to_text(state.policy());
  return std::move(error)
      .with("command", printable(fleet::to_text(record.command), 2000))
      .with("policy", policy.empty() ? "as it is without any setting" : policy)
      .with("cause",
            "the state before it was the same, so that this program decides otherwise than the one that wrote the log; "
            "--no-verify takes what was decided as it is");
}

Result<Replay> replay(const ReplayOptions& options) {
  // What is wrong with a policy is said before the work, not after it.
  std::vector<std::string> changes;
  for (const std::string& text : options.policies) {
    Result<std::string> fields = policy_fields(text);
    const Result<fleet::Figures> tried =
        fields.ok() ? fleet::what_if(fleet::Past(), *fields) : Result<fleet::Figures>(fields.error());
    if (!tried.ok()) return Error(tried.error()).in("--policy " + printable(text));
    changes.push_back(std::move(*fields));
  }
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
  say_note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  Replay result;
  result.compacted = log->compacted();
  if (result.compacted > 0 && !changes.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "'" + place.log + "' has its records from " + std::to_string(result.compacted + 1) +
                     " on; those before were compacted, and --policy needs all of them. Without --policy it is "
                     "verified from its snapshot on"};
  }
  ProgressLine progress(!options.json);
  ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
  fleet::Past past;
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->next());
    if (record == nullptr) break;
    Result<void> same = options.no_verify ? brain.apply(*record) : brain.verify(*record);
    if (!same.ok()) {
      Error error = std::move(same).take_error();
      if (error.code != ErrorCode::kConflict) return std::move(error).in(place.log);
      return with_causes(std::move(error), *record, brain.state());
    }
    if (result.compacted == 0) past.see(*record, brain.state());
    if (++result.records % 4096 == 0) progress.show("verifying " + std::to_string(log->permille() / 10) + " %");
  }
  result.hash = brain.hash().to_string();
  if (result.compacted > 0) return result;  // The figures are those of a whole log.
  result.courses.push_back({"as it happened", "", past.figures(brain.state())});
  // A log that ends while tasks run is no match for courses that go on to their end: its own policy goes on as well.
  std::vector<std::pair<std::string, std::string>> others;
  if (!changes.empty()) others.emplace_back("same policy", "");
  for (std::size_t i = 0; i < changes.size(); ++i) others.emplace_back(options.policies[i], changes[i]);
  for (const auto& [name, change] : others) {
    const auto show = [&, what = name](std::uint64_t decisions) {
      progress.show(what + ": " + std::to_string(decisions) + " decisions of about " + std::to_string(result.records));
    };
    Result<fleet::Figures> figures = fleet::what_if(past, change, show);
    if (!figures.ok()) return std::move(figures).take_error().in("--policy " + printable(name));
    result.courses.push_back({name, change, *figures});
  }
  return result;
}

std::string money(std::int64_t microdollars) {
  char text[64];
  std::snprintf(text, sizeof text, "$%.4f", static_cast<double>(microdollars) / 1e6);
  return text;
}

std::string percent(std::int64_t millionths) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %%", static_cast<double>(millionths) / 1e4);
  return text;
}

void print_table(const Replay& replay) {
  using Cell = std::string (*)(const fleet::Figures&);
  const std::vector<std::pair<std::string, Cell>> rows = {
      {"makespan", [](const fleet::Figures& f) { return fleet::span_of(f.makespan_ns); }},
      {"cost while busy", [](const fleet::Figures& f) { return money(f.cost_busy_microdollars); }},
      {"cost while there", [](const fleet::Figures& f) { return money(f.cost_up_microdollars); }},
      {"cpu used", [](const fleet::Figures& f) { return percent(f.utilisation_millionths); }},
      {"wait, mean", [](const fleet::Figures& f) { return fleet::span_of(f.wait_mean_ns); }},
      {"wait, 95 of 100", [](const fleet::Figures& f) { return fleet::span_of(f.wait_p95_ns); }},
      {"succeeded", [](const fleet::Figures& f) { return std::to_string(f.succeeded); }},
      {"failed", [](const fleet::Figures& f) { return std::to_string(f.failed); }},
      {"cancelled", [](const fleet::Figures& f) { return std::to_string(f.cancelled); }},
      {"skipped", [](const fleet::Figures& f) { return std::to_string(f.skipped); }},
      {"unfinished", [](const fleet::Figures& f) { return std::to_string(f.unfinished); }},
      {"refused", [](const fleet::Figures& f) { return std::to_string(f.refused); }},
      {"decisions", [](const fleet::Figures& f) { return std::to_string(f.records); }},
  };
  // Policies are long: they are numbered, and listed below the table.
  std::vector<std::string> heads;
  std::string notes;
  for (std::size_t i = 0; i < replay.courses.size(); ++i) {
    const bool own = replay.courses[i].policy.empty();
    heads.push_back(own ? replay.courses[i].name : "policy " + std::to_string(i - 1));
    if (!own) notes += "policy " + std::to_string(i - 1) + ": " + replay.courses[i].name + "\n";
  }
  constexpr int kFirst = 18;
  constexpr int kOther = 16;
  std::printf("\n%-*s", kFirst, "");
  for (const std::string& head : heads) std::printf("  %*s", kOther, head.c_str());
  std::printf("\n");
  for (const auto& [name, cell] : rows) {
    std::printf("%-*s", kFirst, name.c_str());
    for (const Course& course : replay.courses) std::printf("  %*s", kOther, cell(course.figures).c_str());
    std::printf("\n");
  }
  if (!notes.empty()) std::printf("\n%s", notes.c_str());
}

void print_json(const Replay& replay, bool verified) {
  std::string out = "{\"verified\":" + std::string(verified ? "true" : "false") +
                    ",\"records\":" + std::to_string(replay.records) +
                    ",\"compacted\":" + std::to_string(replay.compacted) + ",\"state\":";
  append_json_string(out, replay.hash);
  out += ",\"courses\":[";
  for (const Course& course : replay.courses) {
    if (out.back() != '[') out += ',';
    out += "{\"name\":";
    append_json_string(out, course.name);
    out += ",\"figures\":" + fleet::to_json(course.figures) + "}";
  }
  std::printf("%s]}\n", out.c_str());
}

void print_json_error(const Error& error) {
  std::string out = "{\"verified\":false,\"error\":{\"code\":";
  append_json_string(out, to_string(error.code));
  out += ",\"message\":";
  append_json_string(out, error.message);
  for (const ErrorDetail& detail : error.details) {
    out += ',';
    append_json_string(out, detail.key);
    out += ':';
    append_json_string(out, detail.value);
  }
  std::printf("%s}}\n", out.c_str());
}

}  // namespace

void add_replay(CLI::App& app, Exit& exit) {
  CLI::App* verb =
      app.add_subcommand("replay", "Decide a log again and compare; say what another policy would have done");
  auto options = std::make_shared<ReplayOptions>();
  add_where(*verb, options->where);
  verb->add_option("--policy", options->policies,
                   "what if: mode=static_worker,lambda_other=0.2; may be given several times")
      ->allow_extra_args(false)
      ->option_text("POLICY");
  verb->add_flag("--no-verify", options->no_verify, "take what was decided as it is: for the log of another version");
  verb->add_flag("--json", options->json, "for programs");
  verb->footer(
      "Exit status 4: a record would be decided otherwise now. 10: the log is damaged.\n"
      "What if: an attempt takes as long as it took, and ends as it ended, on whichever worker; workers are there "
      "when\n"
      "they were. Costs are a worker's price for the time in which it ran something (busy), or was there and enabled.\n"
      "\n"
      "Examples:\n"
      "  rota replay nightly.yaml                               # verify the log of its runs\n"
      "  rota replay nightly.yaml --policy mode=static_worker   # and what that would have done");
  verb->callback([&exit, options] {
    const Result<Replay> result = replay(*options);
    if (!result.ok()) {
      if (options->json) print_json_error(result.error());
      exit.status = report(result.error());
      return;
    }
    if (options->json) {
      print_json(*result, !options->no_verify);
    } else {
      std::printf("%s %llu records; the state at the end is %s.\n",
                  options->no_verify ? "Applied" : "Verified: decided again and found the same,",
                  static_cast<unsigned long long>(result->records), result->hash.c_str());
      if (result->compacted == 0) {
        print_table(*result);
      } else {
        std::printf("It began with a snapshot: the %llu records before it were compacted, so there are no figures.\n",
                    static_cast<unsigned long long>(result->compacted));
      }
    }
    exit.status = 0;
  });
}

}  // namespace rota::cli
