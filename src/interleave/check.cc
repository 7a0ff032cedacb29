// check(): runs executions until the search is done or one fails, then writes the report.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "interleave/engine.h"

namespace rota::interleave {
namespace {

const char* name_of(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "none";
    case Failure::kAssertion:
      return "assertion";
    case Failure::kDataRace:
      return "data race";
    case Failure::kDeadlock:
      return "deadlock";
    case Failure::kLivelock:
      return "livelock";
    case Failure::kMisuse:
      return "misuse";
    case Failure::kLimit:
      return "limit";
  }
  return "?";
}

std::unique_ptr<Search> make_search(const Options& options) {
  switch (options.mode) {
    case Mode::kExhaustive:
      return make_exhaustive_search(options.preemption_bound, options.reduction);
    case Mode::kRandom:
      return make_random_search(options.seed, 0);
    case Mode::kPct:
      return make_random_search(options.seed, options.pct_depth < 1 ? 1 : options.pct_depth);
  }
  return nullptr;
}

// The path to replay, from the options or the environment; false if there is none.
bool wanted_replay(const Options& options, std::string& path) {
  path = options.replay;
  const char* const variable = std::getenv("ROTA_INTERLEAVE_REPLAY");
  if (path.empty() && variable != nullptr) {
    const std::string text = variable;
    const std::size_t colon = text.rfind(':');
    if (colon != std::string::npos && text.substr(0, colon) == options.name) path = text.substr(colon + 1);
  }
  return !path.empty();
}

std::string count_of(std::uint64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string summary(const Options& options, const Result& result, bool spin_cut, bool candidates_cut) {
  std::string text = count_of(result.executions, "execution");
  if (result.redundant != 0) text += " (" + std::to_string(result.redundant) + " redundant)";
  text += ", at most " + count_of(result.longest_steps, "operation");
  if (result.exhaustive) {
    text += ", exhaustive";
    if (options.preemption_bound >= 0)
      text += " within " + count_of(static_cast<std::uint64_t>(options.preemption_bound), "preemption");
  } else if (options.mode == Mode::kExhaustive) {
    text += ", NOT exhaustive";
    if (spin_cut) text += " (a bounded spin loop ran out; raise free_spins)";
    if (candidates_cut) text += " (more than 64 values for one load)";
  } else {
    text += ", random from seed " + std::to_string(options.seed);
  }
  char rate[64];
  std::snprintf(rate, sizeof rate, ", %.2f s, %.0f a second", result.seconds,
                static_cast<double>(result.executions) / (result.seconds > 0 ? result.seconds : 1e-9));
  return text + rate;
}

std::string tell_failure(const Options& options, const Result& result, const Engine::Outcome& outcome,
                         const Engine::Outcome& again, const Trace& trace, const std::string& which) {
  std::string text = "interleave \"" + options.name + "\" FAILED (" + name_of(outcome.failure) + ") in execution " +
                     std::to_string(result.executions) + (which.empty() ? "" : ", " + which) + "\n" + outcome.message +
                     "\n";
  if (again.message != outcome.message) {
    text += "The replay did NOT end the same way (\"" + again.message +
            "\"): the body depends on something else than the checker's answers.\n";
  }
  text += trace.render();
  text += "Replay: ROTA_INTERLEAVE_REPLAY='" + options.name + ":" + result.path +
          "' with the same test, or Options::replay = \"" + result.path + "\"\n";
  return text;
}

}  // namespace

Result check(const Options& options, const std::function<void(Execution&)>& body) {
  Result result;
  if (Engine::inside()) {
    result.report = "interleave: check() inside a check()";
    return result;
  }
  std::unique_ptr<Search> search;
  std::string replay;
  if (wanted_replay(options, replay)) {
    Path path;
    if (!parse_path(replay, path)) {
      result.report = "interleave: \"" + replay + "\" is not a path";
      return result;
    }
    search = make_replay_search(std::move(path));
  } else {
    search = make_search(options);
  }

  const auto started = std::chrono::steady_clock::now();
  Engine engine;
  Engine::Outcome outcome;
  bool spin_cut = false;
  bool candidates_cut = false;
  bool finished = false;
  while (!finished && outcome.failure == Failure::kNone && result.executions < options.max_executions) {
    outcome = engine.run(options, *search, body, nullptr);
    ++result.executions;
    if (search->redundant()) ++result.redundant;
    if (outcome.steps > result.longest_steps) result.longest_steps = outcome.steps;
    spin_cut |= outcome.spin_cut;
    candidates_cut |= outcome.candidates_cut;
    if (outcome.failure == Failure::kNone) finished = !search->advance();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  result.ok = outcome.failure == Failure::kNone;
  result.failure = outcome.failure;
  result.exhaustive = finished && options.mode == Mode::kExhaustive && replay.empty() && !spin_cut && !candidates_cut;
  if (result.ok) {
    result.report = "interleave \"" + options.name + "\" ok: " + summary(options, result, spin_cut, candidates_cut);
    return result;
  }
  // Runs the failed execution again, recording a trace.
  const Path path = engine.path();
  result.path = format_path(path);
  Trace trace;
  const std::unique_ptr<Search> again = make_replay_search(path);
  const Engine::Outcome second = engine.run(options, *again, body, &trace);
  result.report = tell_failure(options, result, outcome, second, trace, search->describe());
  return result;
}

void Execution::run_all(const Body* bodies, std::size_t count) {
  Engine& engine = Engine::current();
  int threads[kMaxThreads] = {};
  for (std::size_t i = 0; i < count; ++i) threads[i] = engine.spawn(bodies[i].call, bodies[i].target, Where{});
  for (std::size_t i = 0; i < count; ++i) engine.join(threads[i], Where{});
}

void Execution::name_object(const void* object, const char* text) { Engine::current().name(object, text); }

void fail_assertion(const char* what, const char* file, int line) {
  const std::string path = file;
  Engine::current().fail(Failure::kAssertion, std::string("assertion failed: ") + what + " (" +
                                                  path.substr(path.rfind('/') + 1) + ":" + std::to_string(line) + ")");
}

}  // namespace rota::interleave
