// Reads the scripts of scenario_script_test.h; and the tests of that.
#include "fleet/scenario_script_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/units.h"
#include "fleet/names.h"
#include "fleet/text.h"

namespace rota::fleet::testing_support {

namespace {

Error wrong(std::string message) { return Error{ErrorCode::kParseError, std::move(message)}; }

Result<ScriptLine> cut(std::string_view text, int number) {
  ScriptLine line{.number = number, .text = std::string(text)};
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    std::string name;
    std::string value;
    bool is_named = false;
    while (at < text.size() && text[at] != ' ') {
      const char c = text[at++];
      if (c == '\'' || c == '"') {
        const std::size_t end = text.find(c, at);
        if (end == std::string_view::npos) return wrong("a quote that is never closed");
        value.append(text, at, end - at);
        at = end + 1;
      } else if (c == '=' && !is_named) {
        is_named = true;
        name = std::exchange(value, "");
      } else {
        value.push_back(c);
      }
    }
    if (!is_named) {
      line.words.push_back(std::move(value));
    } else if (!line.named.emplace(name, std::move(value)).second) {
      return wrong("'" + name + "' is given twice");
    }
  }
  return line;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Result<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size())
    return wrong("'" + std::string(text) + "' is no number");
  return value;
}

// "2.5" with scale 1000 is 2500.
Result<std::int64_t> scaled(std::string_view text, std::int64_t scale) {
  const std::size_t dot = std::min(text.find('.'), text.size());
  ROTA_TRY_ASSIGN(std::int64_t value, whole(text.substr(0, dot)));
  value *= scale;
  for (std::size_t i = dot + 1; i < text.size(); ++i) {
    scale /= 10;
    if (text[i] < '0' || text[i] > '9' || scale == 0) return wrong("'" + std::string(text) + "' is no number");
    value += (text[i] - '0') * scale;
  }
  return value;
}

Result<std::int64_t> bytes(std::string_view text) {
  ROTA_TRY_ASSIGN(const ByteSize size, parse_bytes(text));
  return static_cast<std::int64_t>(size.count);
}

Result<std::int64_t> milliseconds(std::string_view text) {
  ROTA_TRY_ASSIGN(const Duration duration, parse_duration(text));
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

// "2x80GiB:h100": two devices of 80 GiB, model h100. Memory and model may be left out: "2x", "2x80GiB", "2x:h100".
Result<DeviceRequest> gpu(std::string_view text) {
  DeviceRequest need;
  const std::size_t x = text.find('x');
  if (x == std::string_view::npos) return wrong("write a gpu like 2x80GiB:h100");
  ROTA_TRY_ASSIGN(need.count, whole(text.substr(0, x)));
  text.remove_prefix(x + 1);
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (colon > 0) {
    ROTA_TRY_ASSIGN(need.memory_bytes, bytes(text.substr(0, colon)));
  }
  need.model = text.substr(std::min(colon + 1, text.size()));
  return need;
}

// "licence:2,seat:1"
Result<std::vector<NamedAmount>> named_amounts(std::string_view text) {
  std::vector<NamedAmount> list;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) return wrong("write a named resource like licence:2");
    ROTA_TRY_ASSIGN(const std::int64_t count, whole(std::string_view(part).substr(colon + 1)));
    list.push_back({part.substr(0, colon), count});
  }
  return list;
}

Result<std::vector<Label>> labels(std::string_view text) {
  std::vector<Label> list;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) return wrong("write a label like rack:b7");
    list.push_back({part.substr(0, colon), part.substr(colon + 1)});
  }
  return list;
}

// Takes words off a line one by one; what is left at the end is an error.
class Words {
 public:
  explicit Words(const ScriptLine& line) : words_(line.words), named_(line.named) {}

  Result<std::string> word(std::string_view what) {
    if (next_ == words_.size()) return wrong("there should be " + std::string(what));
    return words_[next_++];
  }
  [[nodiscard]] bool more() const { return next_ < words_.size(); }
  bool flag(std::string_view name) {
    const auto found = std::find(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end(), name);
    if (found == words_.end()) return false;
    words_.erase(found);
    return true;
  }
  // Calls set(value) with the value of `name`, if it is there.
  template <class Set>
  Result<void> option(const std::string& name, Set&& set) {
    const auto found = named_.find(name);
    if (found == named_.end()) return {};
    const std::string value = found->second;
    named_.erase(found);
    Result<void> result = set(value);
    if (!result.ok()) return std::move(result).take_error().in(name);
    return {};
  }
  Result<void> text(const std::string& name, std::string& target) {
    return option(name, [&](const std::string& value) -> Result<void> {
      target = value;
      return {};
    });
  }
  Result<void> list(const std::string& name, std::vector<std::string>& target) {
    return option(name, [&](const std::string& value) -> Result<void> {
      target = split(value, ',');
      return {};
    });
  }
  template <class T, class Parse>
  Result<void> parsed(const std::string& name, T& target, Parse&& parse) {
    return option(name, [&](const std::string& value) -> Result<void> {
      ROTA_TRY_ASSIGN(target, parse(value));
      return {};
    });
  }
  Result<void> number(const std::string& name, std::int64_t& target) { return parsed(name, target, whole); }
  Result<void> nothing_left() const {
    if (next_ < words_.size()) return wrong("'" + words_[next_] + "' is too much");
    if (!named_.empty()) return wrong("there is no option '" + named_.begin()->first + "'");
    return {};
  }

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::string> named_;
  std::size_t next_ = 1;  // After the verb.
};

const auto millis = [](const std::string& text) { return scaled(text, 1000); };

Result<Command> worker_command(Words& words) {
  RegisterWorker command;
  WorkerSpec& worker = command.worker;
  ROTA_TRY_ASSIGN(worker.name, words.word("a name"));
  Resources& resources = worker.resources;
  resources.cpu_millis = 1000;
  ROTA_TRY(words.parsed("cpu", resources.cpu_millis, millis));
  ROTA_TRY(words.parsed("mem", resources.memory_bytes, bytes));
  ROTA_TRY(words.parsed("named", resources.named, named_amounts));
  ROTA_TRY(words.option("gpu", [&](const std::string& value) -> Result<void> {
    for (const std::string& part : split(value, '+')) {
      ROTA_TRY_ASSIGN(const DeviceRequest gpus, gpu(part));
      resources.gpus.insert(resources.gpus.end(), static_cast<std::size_t>(gpus.count),
                            Device{gpus.model, gpus.memory_bytes});
    }
    return {};
  }));
  ROTA_TRY(words.text("zone", worker.zone));
  ROTA_TRY(words.parsed("cost", worker.cost_microdollars_per_hour,
                        [](const std::string& text) { return scaled(text, 1'000'000); }));
  ROTA_TRY(words.list("cap", worker.capabilities));
  ROTA_TRY(words.parsed("label", worker.labels, labels));
  ROTA_TRY(words.list("handlers", worker.handlers));
  worker.programs = !words.flag("no_programs");
  std::vector<std::string> caches;
  ROTA_TRY(words.list("cache", caches));
  for (std::string& item : caches) command.caches.push_back({std::move(item), 0});
  ROTA_TRY(words.parsed("life", command.incarnation, [](const std::string& text) -> Result<Incarnation> {
    ROTA_TRY_ASSIGN(const std::int64_t number, whole(text));
    return Incarnation(static_cast<std::uint64_t>(number));
  }));
  return Command(std::move(command));
}

Result<void> stage_line(const ScriptLine& line, WorkflowSpec& workflow) {
  Words words(line);
  if (line.words.empty() || line.words.front() != "stage") return wrong("here should be a stage");
  Stage stage;
  TaskTemplate work;
  ROTA_TRY_ASSIGN(stage.name, words.word("a name"));
  stage.use = static_cast<std::int64_t>(workflow.templates.size());
  ROTA_TRY(words.option("needs", [&](const std::string& value) -> Result<void> {
    for (const std::string& name : split(value, ',')) {
      const auto found = std::find_if(workflow.stages.begin(), workflow.stages.end(),
                                      [&](const Stage& other) { return other.name == name; });
      if (found == workflow.stages.end()) return wrong("no stage '" + name + "' above");
      stage.needs.push_back(static_cast<std::uint32_t>(found - workflow.stages.begin()));
    }
    return {};
  }));
  std::vector<std::string> each;
  ROTA_TRY(words.list("each", each));
  for (const std::uint32_t need : stage.needs) {
    if (!each.empty()) stage.each.push_back({need, each});
  }
  std::int64_t items = 0;
  ROTA_TRY(words.number("items", items));
  for (std::int64_t i = 0; i < items; ++i) stage.items.push_back("{\"i\": " + std::to_string(i) + "}");
  // `fan=${list.result}`: the values of the list are the items' "i". One entry of include and exclude.
  ROTA_TRY(words.option("fan", [&](const std::string& value) -> Result<void> {
    stage.fan_out.emplace().lists.push_back({"i", value});
    return {};
  }));
  for (const bool include : {true, false}) {
    ROTA_TRY(words.option(include ? "include" : "exclude", [&](const std::string& value) -> Result<void> {
      if (!stage.fan_out) return wrong("a stage without fan");
      (include ? stage.fan_out->include : stage.fan_out->exclude).push_back(value);
      return {};
    }));
  }
  std::vector<std::string> left_out;
  ROTA_TRY(words.list("leave", left_out));
  for (const std::string& number : left_out) {
    ROTA_TRY_ASSIGN(const std::int64_t task, whole(number));
    stage.left_out.push_back(static_cast<std::uint32_t>(task));
  }
  ROTA_TRY(words.number("priority", stage.priority));
  ROTA_TRY(words.text("type", work.spec.type));
  ROTA_TRY(words.option("category", [&](const std::string& value) -> Result<void> {
    const auto category = parse_name<Category>(value);
    if (!category) return wrong("one of " + all_names<Category>());
    work.category = *category;
    return {};
  }));
  if (!words.flag("handler")) work.spec.program = ProgramSpec{.shell = "true"};
  ROTA_TRY(words.text("inputs", work.spec.inputs));
  ROTA_TRY(words.parsed("cpu", work.needs.cpu_millis, millis));
  ROTA_TRY(words.parsed("mem", work.needs.memory_bytes, bytes));
  ROTA_TRY(words.parsed("gpu", work.needs.gpu, gpu));
  ROTA_TRY(words.parsed("named", work.needs.named, named_amounts));
  ROTA_TRY(words.text("zone", work.needs.zone));
  ROTA_TRY(words.list("cap", work.needs.capabilities));
  ROTA_TRY(words.parsed("label", work.needs.labels, labels));
  ROTA_TRY(words.list("context", work.context));
  std::vector<std::string> outputs;
  std::vector<std::string> fetch;
  ROTA_TRY(words.list("outputs", outputs));
  ROTA_TRY(words.list("fetch", fetch));
  if (!outputs.empty() || !fetch.empty()) {
    model::FilesSpec& files = work.spec.files.emplace();
    files.outputs = std::move(outputs);
    for (std::string& from : fetch) files.fetch.push_back({std::move(from), {}});
  }
  ROTA_TRY(words.text("if", work.condition));
  ROTA_TRY(words.number("attempts", work.retry.max_attempts));
  ROTA_TRY(words.parsed("backoff", work.retry.backoff_ms, milliseconds));
  ROTA_TRY(words.parsed("backoff_most", work.retry.backoff_most_ms, milliseconds));
  ROTA_TRY(words.parsed("memory_factor", work.retry.memory_factor_permille, millis));
  ROTA_TRY(words.parsed("timeout", work.spec.timeout_ms, milliseconds));
  ROTA_TRY(words.text("pin", work.pinned));
  ROTA_TRY(words.number("parallel", stage.parallel));
  stage.finally = words.flag("finally");
  if (stage.finally) stage.when = When::kAlways;
  ROTA_TRY(words.parsed("when", stage.when, [](const std::string& text) -> Result<When> {
    for (const When when : {When::kSuccess, When::kFailure, When::kAlways}) {
      if (to_string(when) == text) return when;
    }
    return wrong("one of success, failure, always");
  }));
  ROTA_TRY(words.parsed("expect", work.expect_ms, milliseconds));
  work.mergeable = words.flag("mergeable");
  if (words.flag("batch")) work.spec.program->batch = work.mergeable = true;
  work.preemptible = words.flag("preemptible");
  work.gang = words.flag("gang");
  ROTA_TRY(words.nothing_left());
  workflow.stages.push_back(std::move(stage));
  workflow.templates.push_back(std::move(work));
  return {};
}

Result<Command> workflow_command(Words& words, const std::vector<ScriptLine>& inside) {
  SubmitWorkflow command;
  ROTA_TRY_ASSIGN(command.workflow.name, words.word("a name"));
  ROTA_TRY(words.text("user", command.workflow.user));
  ROTA_TRY(words.text("key", command.key));
  ROTA_TRY(words.number("priority", command.workflow.priority));
  ROTA_TRY(words.parsed("deadline", command.workflow.deadline_ms, milliseconds));
  command.workflow.fail_fast = words.flag("fail_fast");
  for (const ScriptLine& line : inside) {
    Result<void> stage = stage_line(line, command.workflow);
    if (!stage.ok()) return std::move(stage).take_error().in("line " + std::to_string(line.number));
  }
  return Command(std::move(command));
}

struct Subject {
  WorkflowId workflow{};
  TaskId task{};  // None: the whole workflow.
};
Result<Subject> subject(const std::string& text) {
  if (const auto task = TaskId::parse(text)) return Subject{task->workflow(), *task};
  if (const auto workflow = WorkflowId::parse(text)) return Subject{*workflow, {}};
  return wrong("'" + text + "' is neither a task (wf-1.0) nor a workflow (wf-1)");
}

// A report about a task's latest attempt, or the one that the line names.
template <class Report>
Result<Report> report(Words& words, const State& state) {
  Report command;
  ROTA_TRY_ASSIGN(const std::string text, words.word("a task"));
  const auto task = TaskId::parse(text);
  if (!task) return wrong("'" + text + "' is no task; write it like wf-1.0");
  command.task = *task;
  const Task* found = state.find(*task);
  std::int64_t attempt = found == nullptr ? 0 : found->attempt.value();
  ROTA_TRY(words.number("attempt", attempt));
  command.attempt = AttemptNumber(static_cast<std::uint32_t>(attempt));
  return command;
}

Result<Command> report_command(const std::string& verb, Words& words, const State& state) {
  if (verb == "ok" || verb == "fail" || verb == "stopped" || verb == "returned") {
    ROTA_TRY_ASSIGN(auto command, report<ReportEnded>(words, state));
    AttemptOutcome& outcome = command.outcome;
    outcome.end = verb == "ok"         ? AttemptEnd::kSucceeded
                  : verb == "fail"     ? AttemptEnd::kFailed
                  : verb == "returned" ? AttemptEnd::kPreempted
                                       : AttemptEnd::kCancelled;
    ROTA_TRY(words.text("result", outcome.result));
    ROTA_TRY(words.text("note", outcome.cache_note));
    std::vector<std::string> files;
    ROTA_TRY(words.list("files", files));
    for (const std::string& file : files) {
      const std::size_t first = file.find(':');
      const std::size_t second = file.find(':', first + 1);
      if (second == std::string::npos) return wrong("write a file like out.bin:ab12:100");
      outcome.outputs.push_back({file.substr(0, first), file.substr(first + 1, second - first - 1),
                                 std::stoll(file.substr(second + 1)), false});
    }
    ROTA_TRY(words.number("started_ns", outcome.started_ns));
    ROTA_TRY(words.number("ended_ns", outcome.ended_ns));
    outcome.reused = words.flag("reused");
    outcome.final = words.flag("final");
    outcome.batch = words.flag("batch");
    ROTA_TRY(words.option("kind", [&](const std::string& value) -> Result<void> {
      const auto kind = parse_name<FailureKind>(value);
      if (!kind) return wrong("one of " + all_names<FailureKind>());
      outcome.failure = *kind;
      return {};
    }));
    if (words.more()) {
      ROTA_TRY_ASSIGN(outcome.message, words.word("a message"));
    }
    return Command(std::move(command));
  }
  if (verb == "checkpoint") {
    ROTA_TRY_ASSIGN(auto command, report<ReportCheckpoint>(words, state));
    ROTA_TRY_ASSIGN(command.checkpoint, words.word("a JSON value"));
    return Command(std::move(command));
  }
  ROTA_TRY_ASSIGN(auto command, report<ReportUndeliverable>(words, state));
  return Command(command);
}

Result<Command> fleet_command(const std::string& verb, Words& words, const State& state) {
  if (verb == "heartbeat") {
    Heartbeats command;
    while (words.more()) {
      ROTA_TRY_ASSIGN(command.workers.emplace_back(), words.word("a name"));
    }
    if (command.workers == std::vector<std::string>{"all"}) {
      command.workers.clear();
      state.each_worker([&](const Worker& worker) { command.workers.push_back(worker.spec.name); });
    }
    return Command(std::move(command));
  }
  ROTA_TRY_ASSIGN(std::string name, words.word("a worker's name"));
  if (verb == "drain") return Command(DrainWorker{std::move(name)});
  if (verb == "enable" || verb == "disable") {
    const bool held = !words.flag("auto");
    return Command(SetWorkerEnabled{std::move(name), verb == "enable", held});
  }
  if (verb == "lost") {
    WorkerLost command{std::move(name), {}};
    if (words.more()) {
      ROTA_TRY_ASSIGN(command.reason, words.word("a reason"));
    }
    return Command(std::move(command));
  }
  ReportCaches command{std::move(name), {}};
  while (words.more()) {
    ROTA_TRY_ASSIGN(command.items.emplace_back(), words.word("an item"));
  }
  return Command(std::move(command));
}

Result<Command> quota_command(Words& words) {
  SetQuota command;
  ROTA_TRY_ASSIGN(command.user, words.word("a user"));
  ROTA_TRY(words.number("weight", command.weight));
  FleetUse& limits = command.limits;
  ROTA_TRY(words.parsed("cpu", limits.cpu_millis, millis));
  ROTA_TRY(words.parsed("mem", limits.memory_bytes, bytes));
  ROTA_TRY(words.parsed("named", limits.named, named_amounts));
  ROTA_TRY(words.number("gpus", limits.gpus));
  ROTA_TRY(words.number("tasks", limits.tasks));
  return Command(std::move(command));
}

Result<Command> any_command(const ScriptCommand& script, const State& state) {
  const ScriptLine& line = script.line;
  if (line.words.empty()) return wrong("here should be a command");
  const std::string& verb = line.words.front();
  if (verb.front() >= 'A' && verb.front() <= 'Z') return parse_command(line.text);
  if (verb == "policy") {
    SetPolicy command{state.policy()};
    ROTA_TRY(parse_fields(std::string_view(line.text).substr(verb.size()), command.policy));
    return Command(command);
  }
  Words words(line);
  Result<Command> command = [&]() -> Result<Command> {
    if (verb == "worker") return worker_command(words);
    if (verb == "workflow") return workflow_command(words, script.inside);
    if (verb == "tick") return Command(Tick{});
    if (verb == "quota") return quota_command(words);
    for (const char* one : {"ok", "fail", "stopped", "returned", "checkpoint", "undeliverable"}) {
      if (verb == one) return report_command(verb, words, state);
    }
    for (const char* one : {"heartbeat", "drain", "lost", "enable", "disable", "caches"}) {
      if (verb == one) return fleet_command(verb, words, state);
    }
    const auto action = parse_name<Action>(verb);
    if (!action && verb != "priority" && verb != "forget") return wrong("'" + verb + "' is no command");
    ROTA_TRY_ASSIGN(const std::string text, words.word("a workflow or a task"));
    ROTA_TRY_ASSIGN(const Subject what, subject(text));
    if (action) return Command(Control{*action, what.workflow, what.task});
    if (verb == "forget") return Command(ForgetWorkflow{what.workflow});
    ROTA_TRY_ASSIGN(const std::string value, words.word("a number"));
    ROTA_TRY_ASSIGN(const std::int64_t priority, whole(value));
    return Command(SetPriority{what.workflow, what.task, priority});
  }();
  if (command.ok()) ROTA_TRY(words.nothing_left());
  return command;
}

}  // namespace

Result<Command> script_command(const ScriptCommand& script, const State& state) {
  Result<Command> command = any_command(script, state);
  if (!command.ok()) return std::move(command).take_error().in("line " + std::to_string(script.line.number));
  return command;
}

Result<void> take_time(ScriptLine& line, std::int64_t start_ns, std::int64_t& now_ns) {
  if (line.words.empty()) return {};
  if (line.words[0] != "at" && line.words[0] != "after") {
    if (line.words[0] != "show") now_ns += 1'000'000;
    return {};
  }
  const std::string where = "line " + std::to_string(line.number);
  if (line.words.size() < 3) return wrong(where + ": after '" + line.words[0] + "' come a duration and a command");
  Result<Duration> duration = parse_duration(line.words[1]);
  if (!duration.ok()) return std::move(duration).take_error().in(where);
  const std::int64_t then = (line.words[0] == "at" ? start_ns : now_ns) + duration->count();
  if (then < now_ns) return wrong(where + ": time never goes back");
  now_ns = then;
  line.text = line.text.substr(line.text.find(line.words[2], line.words[0].size() + 1 + line.words[1].size()));
  line.words.erase(line.words.begin(), line.words.begin() + 2);
  return {};
}

Result<std::vector<ScriptBlock>> parse_script(std::string_view text, std::vector<std::string>& after) {
  std::vector<ScriptBlock> blocks;
  ScriptBlock block;
  bool in_expected = false;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (in_expected) {
      if (!line.empty()) {
        block.expected.append(line).push_back('\n');
        if (!text.empty()) continue;
      }
      blocks.push_back(std::exchange(block, {}));
      in_expected = false;
    } else if (line == "----") {
      if (block.parsed.empty()) return wrong("line " + std::to_string(number) + ": ---- without a command before it");
      in_expected = true;
      if (text.empty()) blocks.push_back(std::exchange(block, {}));
    } else if (block.parsed.empty() && (line.empty() || line.front() == '#')) {
      block.before.push_back(line);
    } else {
      Result<ScriptLine> words = cut(line, number);
      if (!words.ok()) return std::move(words).take_error().in("line " + std::to_string(number));
      block.commands.push_back(line);
      if (line.starts_with(' ') && !block.parsed.empty()) {
        block.parsed.back().inside.push_back(std::move(words).value());
      } else {
        block.parsed.push_back({std::move(words).value(), {}});
      }
    }
  }
  if (!block.parsed.empty()) {
    return wrong("line " + std::to_string(block.parsed.front().line.number) + ": there is no ---- after this");
  }
  after = std::move(block.before);
  return blocks;
}

namespace {

std::string read_one(std::string_view text) {
  std::vector<std::string> after;
  const auto blocks = parse_script(std::string(text) + "\n----\n", after);
  if (!blocks.ok()) return blocks.error().message;
  const Result<Command> command = script_command(blocks->front().parsed.front(), State());
  return command.ok() ? to_text(*command) : command.error().message;
}

TEST(ScenarioScriptTest, LinesMeanCommands) {
  EXPECT_EQ(read_one("worker a cpu=4 mem=8GiB gpu=2x80GiB:h100+1x:a10 zone=z cost=2.5 cap=x,y label=r:1 cache=model:m"),
            "RegisterWorker worker={name=a resources={cpu_millis=4000 memory_bytes=8589934592 gpus=[{model=h100 "
            "memory_bytes=85899345920} {model=h100 memory_bytes=85899345920} {model=a10}]} zone=z "
            "cost_microdollars_per_hour=2500000 capabilities=[x y] labels=[{key=r value=1}]} caches=[{item=model:m}]");
  EXPECT_EQ(read_one("worker a cpu=0 handlers=sft,dpo no_programs named=licence:2"),
            "RegisterWorker worker={name=a resources={named=[{name=licence count=2}]} handlers=[sft dpo] "
            "programs=false}");
  EXPECT_EQ(
      read_one("workflow w user=ann priority=3\n  stage a cpu=0.5\n  stage b needs=a items=2 gang handler type=sft "
               "inputs='{\"x\": 1}'"),
      "SubmitWorkflow workflow={name=w user=ann priority=3 templates=[{spec={program={shell=true}} "
      "needs={cpu_millis=500}} {spec={type=sft inputs=\"{\\\"x\\\": 1}\"} gang=true}] stages=[{name=a} {name=b use=1 "
      "needs=[0] items=[\"{\\\"i\\\": 0}\" \"{\\\"i\\\": 1}\"]}]}");
  EXPECT_EQ(read_one("fail wf-1.0 'boom: no' kind=memory attempt=2"),
            "ReportEnded task=wf-1.0 attempt=2 outcome={failure=memory message=\"boom: no\"}");
  EXPECT_EQ(read_one("cancel wf-3.2"), "Control action=cancel workflow=wf-3 task=wf-3.2");
  EXPECT_EQ(read_one("priority wf-3 -4"), "SetPriority workflow=wf-3 priority=-4");
  EXPECT_EQ(read_one("policy merge=false elastic={enable=true}"),
            "SetPolicy policy={merge=false elastic={enable=true}}");
  EXPECT_EQ(read_one("Tick"), "Tick");
}

TEST(ScenarioScriptTest, MistakesInAScriptAreNamed) {
  EXPECT_EQ(read_one("\nwrker a"), "line 2: 'wrker' is no command");
  EXPECT_EQ(read_one("worker a cpus=4"), "line 1: there is no option 'cpus'");
  EXPECT_EQ(read_one("worker a b"), "line 1: 'b' is too much");
  EXPECT_EQ(read_one("worker a cpu=x"), "line 1: cpu: 'x' is no number");
  EXPECT_EQ(read_one("workflow w\n  stage a\n  stage b needs=c"), "line 1: line 3: needs: no stage 'c' above");
  EXPECT_EQ(read_one("fail wf-1.0 'x"), "line 1: a quote that is never closed");
  EXPECT_EQ(read_one("ok wf-1"), "line 1: 'wf-1' is no task; write it like wf-1.0");
  std::vector<std::string> after;
  EXPECT_EQ(parse_script("tick\n", after).error().message, "line 1: there is no ---- after this");
}

TEST(ScenarioScriptTest, TimeMovesForward) {
  const auto cut_line = [](std::string_view text) { return cut(text, 1).value(); };
  std::int64_t now = 1000;
  ScriptLine line = cut_line("at 2us tick");
  ASSERT_TRUE(take_time(line, 1000, now).ok());
  EXPECT_EQ(now, 3000);
  EXPECT_EQ(line.text, "tick");
  line = cut_line("after 5ns Tick");
  ASSERT_TRUE(take_time(line, 1000, now).ok());
  EXPECT_EQ(now, 3005);
  line = cut_line("tick");
  ASSERT_TRUE(take_time(line, 1000, now).ok());
  EXPECT_EQ(now, 1'003'005);
  line = cut_line("at 1us tick");
  EXPECT_EQ(take_time(line, 1000, now).error().message, "line 1: time never goes back");
}

}  // namespace
}  // namespace rota::fleet::testing_support
