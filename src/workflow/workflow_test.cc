// What a workflow file means: the spec that comes out of it.
#include "workflow/workflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/prng.h"
#include "model/json.h"
#include "model/reference.h"
#include "workflow/values.h"

namespace rota::workflow {
namespace {

using model::TaskTemplate;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kHead = "apiVersion: rota/v1\nmetadata: {name: w}\nspec:\n";

// Reads what stands under `spec`, which must be right.
WorkflowFile spec(std::string_view text, std::string directory = {}) {
  WorkflowFile file = read_workflow({"w.yaml", std::string(kHead) + std::string(text), std::move(directory)});
  for (const Problem& problem : file.problems) ADD_FAILURE() << to_string("w.yaml", problem);
  return file;
}
// One stage, given by its keys in one line.
TaskTemplate stage(std::string_view keys, std::string directory = {}) {
  const WorkflowFile file = spec("  stages:\n    - {name: s, " + std::string(keys) + "}\n", std::move(directory));
  return file.spec.templates.empty() ? TaskTemplate{} : file.spec.templates.back();
}
std::vector<std::string> needs(const WorkflowFile& file) {
  std::vector<std::string> out;
  for (const model::Stage& stage : file.spec.stages) {
    std::string line = stage.name + ":";
    for (const std::uint32_t need : stage.needs) line += " " + file.spec.stages[need].name;
    out.push_back(line);
  }
  return out;
}

TEST(Workflow, TheSmallestOne) {
  const WorkflowFile file = read_workflow(
      {"dir/hello.yaml", "apiVersion: rota/v1\nspec:\n  stages:\n    - name: hi\n      run: echo hello\n"});
  ASSERT_TRUE(file.ok()) << to_string("f", file.problems.front());
  EXPECT_EQ(file.spec.name, "hello");
  ASSERT_THAT(file.spec.stages, SizeIs(1));
  EXPECT_EQ(file.spec.stages[0].name, "hi");
  EXPECT_THAT(file.spec.stages[0].items, IsEmpty());
  EXPECT_THAT(file.stages, ElementsAre(Position{4, 13}));
  ASSERT_THAT(file.spec.templates, SizeIs(1));
  TaskTemplate expected;
  expected.type = "shell";
  expected.payload = R"({"kind":"command","run":"echo hello"})";
  EXPECT_EQ(file.spec.templates[0], expected);
}

TEST(Workflow, JsonIsTheSameFile) {
  const WorkflowFile yaml = spec("  priority: 3\n  stages:\n    - {name: a, run: 'x', inputs: {n: 1.50, t: 'y'}}\n");
  const WorkflowFile json = read_workflow(
      {"w.json", R"({"apiVersion":"rota/v1","kind":"Workflow","metadata":{"name":"w"},"spec":{"priority":3,
        "stages":[{"name":"a","run":"x","inputs":{"n":1.50,"t":"y"}}]}})"});
  ASSERT_TRUE(json.ok()) << to_string("f", json.problems.front());
  EXPECT_EQ(yaml.spec, json.spec);
  EXPECT_EQ(yaml.spec.priority, 3);
}

TEST(Workflow, StagesWaitForTheOneBeforeThemUnlessTheySay) {
  EXPECT_THAT(
      needs(spec("  stages:\n    - {name: a, run: x}\n    - {name: b, run: x}\n    - {name: c, run: x, needs: a}\n"
                 "    - {name: d, run: x, needs: []}\n    - {name: e, run: x, needs: [d, c, d, f]}\n"
                 "    - {name: f, run: x, needs: [a]}\n")),
      ElementsAre("a:", "b: a", "c: a", "d:", "e: c d f", "f: a"));
  EXPECT_THAT(needs(spec("  graph:\n    b: {run: x, needs: [a]}\n    a: {run: x}\n    c: {run: x, needs: b}\n")),
              ElementsAre("b: a", "a:", "c: b"));
}

TEST(Workflow, ResourcesAreInheritedKeyByKey) {
  const WorkflowFile file = spec(R"(
  resources:
    hardware: {cpu: 2, memory: 4GiB, gpu: {count: 2, type: A100, memory: 40GiB}}
    zone: eu
    capabilities: docker
    labels: {rack: b7, a: "1"}
  max_attempts: 5
  retry: {backoff: 1s, factor: 1.5}
  timeout: 10s
  stages:
    - {name: a, run: x}
    - name: b
      run: x
      resources: {hardware: {cpu: 500m, gpu: {memory: 80GiB}}, zone: us, capabilities: [a, b], worker: w7}
      retry: {max_backoff: 1m, memory_factor: 2}
      timeout: 1ms
    - {name: c, run: x, resources: {hardware: {cpu: 0.25, gpu: {count: 0}}, labels: {}}, max_attempts: 1}
)");
  ASSERT_THAT(file.spec.templates, SizeIs(3));
  const TaskTemplate& a = file.spec.templates[0];
  const TaskTemplate& b = file.spec.templates[1];
  const TaskTemplate& c = file.spec.templates[2];
  constexpr std::int64_t kGiB = 1LL << 30;
  EXPECT_EQ(a.needs, (model::Requirements{
                         2000, 4 * kGiB, {2, "A100", 40 * kGiB}, "eu", {"docker"}, {{"a", "1"}, {"rack", "b7"}}}));
  EXPECT_EQ(b.needs, (model::Requirements{
                         500, 4 * kGiB, {2, "A100", 80 * kGiB}, "us", {"a", "b"}, {{"a", "1"}, {"rack", "b7"}}}));
  EXPECT_EQ(c.needs, (model::Requirements{250, 4 * kGiB, {}, "eu", {"docker"}, {}}));
  EXPECT_EQ(b.pinned, "w7");
  EXPECT_EQ(a.retry, (model::Retry{5, 1000, 1500, 300'000, 0}));
  EXPECT_EQ(b.retry, (model::Retry{5, 1000, 1500, 60'000, 2000}));
  EXPECT_EQ(c.retry.max_attempts, 1);
  EXPECT_EQ(a.timeout_ms, 10'000);
  EXPECT_EQ(b.timeout_ms, 1);
  EXPECT_EQ(stage("run: x, resources: {hardware: {gpu: {type: T4}}}").needs.gpu, (model::GpuNeed{1, "T4", 0}));
}

TEST(Workflow, CommandsBecomePayloads) {
  EXPECT_EQ(stage("run: 'a \"b\"'").payload, R"({"kind":"command","run":"a \"b\""})");
  EXPECT_EQ(stage("run: [sleep, 1, '']").payload, R"({"kind":"command","run":["sleep","1",""]})");
  EXPECT_EQ(
      stage("run: x, env: {A: 1, B: true}, timeout: 2s, limits: {memory: 1KiB, cpu_time: 1m, open_files: 9, processes: "
            "3}")
          .payload,
      R"({"kind":"command","run":"x","env":{"A":"1","B":"true"},"timeout_ms":2000,"limits":{"memory_bytes":1024,"cpu_time_ms":60000,"open_files":9,"processes":3}})");
  EXPECT_EQ(stage("run: x, inputs: {i: [1, 1.50, ~, yes, true, '1', 2024-01-02], o: {}}").payload,
            R"({"kind":"command","run":"x","inputs":{"i":[1,1.50,null,"yes",true,"1","2024-01-02"],"o":{}}})");
  EXPECT_EQ(stage("run: x, cache: true").payload, R"({"kind":"command","run":"x","cache":{"files":[]}})");
  EXPECT_EQ(stage("run: x, cache: false").payload, R"({"kind":"command","run":"x"})");
  EXPECT_EQ(stage("run: x, cache: {files: [a.txt, 'b/*']}").payload,
            R"({"kind":"command","run":"x","cache":{"files":["a.txt","b/*"]}})");
  EXPECT_EQ(stage("run: x, cache: {outputs: out}").payload,
            R"({"kind":"command","run":"x","cache":{"files":[],"outputs":["out"]}})");
  const TaskTemplate handler = stage("handler: resize, inputs: {w: 3}");
  EXPECT_EQ(handler.payload, R"({"kind":"handler","inputs":{"w":3}})");
  EXPECT_EQ(handler.type, "resize");
}

TEST(Workflow, CommandsRunWhereTheFileIsUnlessTheySay) {
  EXPECT_EQ(stage("run: x", "/srv/w").payload, R"({"kind":"command","run":"x","dir":"/srv/w"})");
  EXPECT_EQ(stage("run: x, dir: sub", "/srv/w").payload, R"({"kind":"command","run":"x","dir":"/srv/w/sub"})");
  EXPECT_EQ(stage("run: x, dir: /tmp", "/srv/w").payload, R"({"kind":"command","run":"x","dir":"/tmp"})");
  EXPECT_EQ(stage("run: x, dir: sub").payload, R"({"kind":"command","run":"x","dir":"sub"})");
  EXPECT_EQ(stage("run: x", "/a${b.result}").payload, R"({"kind":"command","run":"x","dir":"/a$${b.result}"})");
  EXPECT_EQ(stage("handler: x", "/srv/w").payload, R"({"kind":"handler"})");
}

TEST(Workflow, EnvIsInheritedNameByName) {
  const WorkflowFile file =
      spec("  env: {A: 1, B: 2}\n  stages:\n    - {name: a, run: x, env: {C: 3, A: 4}}\n    - {name: h, handler: f}\n");
  EXPECT_EQ(file.spec.templates[0].payload, R"({"kind":"command","run":"x","env":{"A":"4","B":"2","C":"3"}})");
  EXPECT_EQ(file.spec.templates[1].payload, R"({"kind":"handler"})");
}

// B-13: in a shell's text a reference is a variable, so that its value is never part of the text.
TEST(Workflow, AReferenceInAShellsTextIsAVariable) {
  const WorkflowFile file = spec(R"(
  stages:
    - {name: a-b, run: x}
    - name: c
      run: 'echo "${a-b.result.x}" ${HOME} $X ${V-1.2} ${W:-a.b} ${arr[0]} ${a-b.result.x} ${task.attempt} $${lit.x}'
      env: {N: "${a-b.result.n}", T: "n=${a-b.result.n}"}
)");
  EXPECT_EQ(
      file.spec.templates[1].payload,
      R"({"kind":"command","run":"echo \"$${ROTA_REF_1}\" $${HOME} $X $${V-1.2} $${W:-a.b} $${arr[0]} $${ROTA_REF_1} $${ROTA_REF_2} $${lit.x}",)"
      R"("env":{"N":"${a-b.result.n}","T":"n=${a-b.result.n}","ROTA_REF_1":"${a-b.result.x}","ROTA_REF_2":"${task.attempt}"}})");
  class Evil final : public model::ReferenceScope {
    Result<std::string_view> value(std::string_view root, std::string_view) override {
      return std::string_view(root == "task" ? "2" : R"({"x": "'; rm -rf / #${HOME}", "n": 7})");
    }
  } evil;
  const auto resolved = model::resolve_references(file.spec.templates[1].payload, evil);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(
      *resolved,
      R"({"kind":"command","run":"echo \"${ROTA_REF_1}\" ${HOME} $X ${V-1.2} ${W:-a.b} ${arr[0]} ${ROTA_REF_1} ${ROTA_REF_2} ${lit.x}",)"
      R"("env":{"N":7,"T":"n=7","ROTA_REF_1":"'; rm -rf / #${HOME}","ROTA_REF_2":2}})");
}

// B-13: in a list it is one argument, and in inputs a value with its type.
TEST(Workflow, AReferenceElsewhereIsTheBrainsToResolve) {
  const WorkflowFile file = spec(R"(
  stages:
    - {name: a, run: x}
    - name: b
      run: [cp, "${a.result.from}", "$${HOME}/${a.result.to}"]
      dir: "${a.result.dir}"
      inputs: {model: "${a.result}", list: ["${task.index}"]}
      condition: ${a.result.ok} and ${task.attempt} < 3
)");
  const TaskTemplate& b = file.spec.templates[1];
  EXPECT_EQ(b.payload,
            R"({"kind":"command","run":["cp","${a.result.from}","$${HOME}/${a.result.to}"],"dir":"${a.result.dir}",)"
            R"("inputs":{"model":"${a.result}","list":["${task.index}"]}})");
  EXPECT_EQ(b.condition, "${a.result.ok} and ${task.attempt} < 3");
}

TEST(Workflow, AMatrixIsEveryCombination) {
  const WorkflowFile file = spec(
      "  stages:\n    - {name: t, run: 'train ${matrix.lr}', matrix: {lr: [0.1, 0.01], seed: [1, 'two', {x: 3}]}}\n");
  EXPECT_THAT(file.spec.stages[0].items,
              ElementsAre(R"({"lr":0.1,"seed":1})", R"({"lr":0.1,"seed":"two"})", R"({"lr":0.1,"seed":{"x":3}})",
                          R"({"lr":0.01,"seed":1})", R"({"lr":0.01,"seed":"two"})", R"({"lr":0.01,"seed":{"x":3}})"));
  EXPECT_THAT(file.spec.templates, SizeIs(1));
}

TEST(Workflow, ReplicasAreAGang) {
  const WorkflowFile file =
      spec("  stages:\n    - {name: t, run: x, replicas: 3}\n    - {name: u, run: x, replicas: 1}\n");
  EXPECT_THAT(file.spec.stages[0].items, ElementsAre("{}", "{}", "{}"));
  EXPECT_TRUE(file.spec.templates[0].gang);
  EXPECT_THAT(file.spec.stages[1].items, ElementsAre("{}"));
  EXPECT_FALSE(file.spec.templates[1].gang);
}

TEST(Workflow, TheOtherKeys) {
  const WorkflowFile file = spec(
      "  stages:\n    - {name: a, run: x, priority: -4, type: sft, merge: true, checkpoint: true,"
      " context: {models: [llama-3], datasets: c4}}\n"
      "    - {name: b, run: x, type: sft, category: other}\n    - {name: c, handler: inference}\n");
  const TaskTemplate& a = file.spec.templates[0];
  EXPECT_EQ(file.spec.stages[0].priority, -4);
  EXPECT_EQ(a.type, "sft");
  EXPECT_EQ(a.category, model::Category::kTraining);
  EXPECT_TRUE(a.mergeable && a.preemptible);
  EXPECT_THAT(a.context, ElementsAre("dataset:c4", "model:llama-3"));
  EXPECT_EQ(file.spec.templates[1].category, model::Category::kOther);
  EXPECT_EQ(file.spec.templates[2].category, model::Category::kInference);
}

TEST(Workflow, EqualStagesShareATemplate) {
  std::string text = "  stages:\n";
  for (int i = 0; i < 1000; ++i) {
    text += "    - {name: s" + std::to_string(i) + ", run: 'true'" + (i % 2 == 0 ? "" : ", priority: 1") +
            (i < 3 ? ", resources: {labels: {a: b}}" : "") + "}\n";
  }
  const WorkflowFile file = spec(text);
  EXPECT_THAT(file.spec.stages, SizeIs(1000));
  EXPECT_THAT(file.spec.templates, SizeIs(2));
}

TEST(Workflow, AliasesSaveWriting) {
  const WorkflowFile file =
      spec("  env: &e {A: 1}\n  stages:\n    - &s {name: a, run: x, env: *e}\n    - {name: b, run: x, env: *e}\n");
  EXPECT_THAT(file.spec.templates, SizeIs(1));
}

// A long chain whose last stage refers to its first: reachability is not searched stage by stage.
TEST(Workflow, LongChainsAreFine) {
  std::string text = "  stages:\n    - {name: s0, run: x}\n";
  for (int i = 1; i < 20'000; ++i) {
    text += "    - {name: s" + std::to_string(i) + ", run: 'y ${s0.result}'}\n";
  }
  EXPECT_THAT(spec(text).spec.templates, SizeIs(2));
}

// Mistakes by the hundred thousand: each of these would take minutes if the words for them were all looked for.
TEST(Workflow, FilesFullOfMistakesAreRefusedQuickly) {
  std::string needs(kHead), keys(kHead), cycle(kHead);
  needs += "  graph:\n";
  keys += "  stages:\n    - name: a\n      run: x\n";
  cycle += "  graph:\n";
  for (int i = 0; i < 100'000; ++i) {
    const std::string number = std::to_string(i);
    needs.append("    s").append(number).append(": {run: x, needs: t").append(number).append("}\n");
    keys.append("      timeo").append(number).append(": 1\n");
    cycle.append("    s")
        .append(number)
        .append(": {run: x, needs: s")
        .append(std::to_string((i + 1) % 100'000))
        .append("}\n");
  }
  EXPECT_THAT(read_workflow({"w", needs}).problems, SizeIs(Problems::kMostProblems + 1));
  EXPECT_THAT(read_workflow({"w", keys}).problems, SizeIs(Problems::kMostProblems + 1));
  const WorkflowFile round = read_workflow({"w", cycle});
  ASSERT_THAT(round.problems, SizeIs(1));
  EXPECT_THAT(round.problems[0].message, testing::HasSubstr("and so on over 100000 stages, which needs 's0' again"));
}

// What reaches what, against a search that visits everything.
RC_GTEST_PROP(WorkflowProperty, AReferenceIsAllowedExactlyIfTheStageIsWaitedFor, (std::uint64_t seed)) {
  Prng random(seed);
  const std::uint64_t size = 2 + random.below(10);
  std::vector<std::vector<std::uint64_t>> needs(size);
  std::string text = std::string(kHead) + "  graph:\n";
  std::uint64_t expected = 0;
  std::vector<std::vector<bool>> reaches(size, std::vector<bool>(size));
  for (std::uint64_t i = 0; i < size; ++i) {
    text += "    s" + std::to_string(i) + ": {run: 'x";
    for (std::uint64_t j = 0; j < i; ++j) {
      if (random.below(3) == 0) needs[i].push_back(j);
    }
    for (const std::uint64_t need : needs[i]) {
      reaches[i][need] = true;
      for (std::uint64_t j = 0; j < size; ++j) {
        if (reaches[need][j]) reaches[i][j] = true;
      }
    }
    for (std::uint64_t j = 0; j < size; ++j) {
      if (random.below(4) != 0) continue;
      text += " ${s" + std::to_string(j) + ".result}";
      if (!reaches[i][j]) ++expected;
    }
    text += "', needs: [";
    for (const std::uint64_t need : needs[i]) text += "s" + std::to_string(need) + ",";
    text += "]}\n";
  }
  const WorkflowFile file = read_workflow({"w", text});
  RC_ASSERT(file.problems.size() == expected);
}

// Whatever a command says, the brain gives the shell the same text back, but for its references.
RC_GTEST_PROP(WorkflowProperty, AShellGetsItsTextUnchanged, ()) {
  std::string text;
  for (const int i : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 8))) {
    text.append(std::vector<std::string>{"${", "}", "$ ", "A", ":-x.y", "\"", "\\", "-1"}[static_cast<std::size_t>(i)]);
  }
  const ShellText read = read_shell_text(text, [](std::string_view) { return false; });
  RC_PRE(read.variables.empty() && read.problems.empty());
  std::string payload;
  for (std::size_t i = 0; i < read.text.size(); ++i) {
    if (read.text.compare(i, 3, "$${") == 0) continue;
    payload.push_back(read.text[i]);
  }
  RC_ASSERT(payload == text);
}

TEST(Source, IsReadWithItsDirectory) {
  EXPECT_EQ(read_source("/nowhere/x.yaml").code(), ErrorCode::kNotFound);
  EXPECT_EQ(read_source("/tmp").code(), ErrorCode::kInvalidArgument);
  const auto source = read_source(std::string(ROTA_SOURCE_DIR) + "/docs/../README.md");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->directory, ROTA_SOURCE_DIR);
}

}  // namespace
}  // namespace rota::workflow
