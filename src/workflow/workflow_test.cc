// What a workflow file means: the spec that comes out of it.
#include "workflow/workflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/prng.h"
#include "base/source_dir.h"
#include "model/json.h"
#include "model/reference.h"
#include "model/text_writer.h"
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
// A specification as text: every field that differs from its default.
std::string text_of(const model::TaskSpec& spec) {
  std::string out;
  model::TextWriter(out).fields(spec, "");
  return out;
}
std::string spec_of(std::string_view keys, std::string directory = {}) {
  return text_of(stage(keys, std::move(directory)).spec);
}
model::Requirements requirements(std::int64_t cpu_millis, std::int64_t memory_bytes, model::DeviceRequest gpu,
                                 std::string zone, std::vector<std::string> capabilities,
                                 std::vector<model::Label> labels) {
  model::Requirements needs;
  needs.cpu_millis = cpu_millis;
  needs.memory_bytes = memory_bytes;
  needs.gpu = std::move(gpu);
  needs.zone = std::move(zone);
  needs.capabilities = std::move(capabilities);
  needs.labels = std::move(labels);
  return needs;
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

// Contract: Y-7, U-7. A variable may name a secret, in three notations; the specification has names only.
TEST(WorkflowSecrets, AreNamesOfVariables) {
  EXPECT_EQ(spec_of("run: x, env: {A: 1, T: {secret: hf, version: 2}}"),
            "type=shell program={shell=x environment=[{name=A value=1}] secrets=[{name=T secret=hf version=2}]}");
  EXPECT_EQ(spec_of("run: x, secrets: {T: hf, U: {secret: a.b-c}}"),
            "type=shell program={shell=x secrets=[{name=T secret=hf} {name=U secret=a.b-c}]}");
  EXPECT_EQ(spec_of("run: x, secrets: [TOKEN]"), "type=shell program={shell=x secrets=[{name=TOKEN secret=TOKEN}]}");
  // A stage overrides `spec`, in both directions; templates are merged.
  const WorkflowFile file = spec(
      "  env: {A: 1}\n  secrets: {B: b}\n  templates:\n    t: {secrets: {C: c, D: d}}\n  stages:\n"
      "    - {name: a, use: t, run: x, secrets: {C: other, A: a}, env: {B: 2}}\n    - {name: h, handler: f}\n");
  ASSERT_THAT(file.spec.templates, SizeIs(2));
  EXPECT_EQ(
      text_of(file.spec.templates[0].spec),
      "type=shell program={shell=x environment=[{name=B value=2}] secrets=[{name=A secret=a} {name=C secret=other} "
      "{name=D secret=d}]}");
}

TEST(WorkflowSecrets, MistakesAreReported) {
  const auto problem = [](std::string_view keys) {
    const WorkflowFile file = read_workflow(
        {"w.yaml", std::string(kHead) + "  stages:\n    - {name: s, run: x, " + std::string(keys) + "}\n", {}});
    return file.problems.empty() ? "none" : file.problems.front().message;
  };
  EXPECT_THAT(problem("env: {T: {secret: ../hf}}"), testing::HasSubstr("the name of a secret has letters"));
  EXPECT_THAT(problem("env: {T: {secret: hf, verison: 2}}"), testing::HasSubstr("did you mean 'version'?"));
  EXPECT_THAT(problem("env: {T: {version: 2}}"), testing::HasSubstr("has no `secret`"));
  EXPECT_THAT(problem("env: {T: [a]}"), testing::HasSubstr("or {secret: NAME}"));
  EXPECT_THAT(problem("env: {T: 1}, secrets: {T: hf}"), testing::HasSubstr("is in env and in secrets"));
  EXPECT_THAT(problem("secrets: hf"), testing::HasSubstr("it must be a mapping of variables to names of secrets"));
  EXPECT_THAT(problem("secrets: {ROTA_X: hf}"), testing::HasSubstr("those that start with ROTA_ are Rota's"));
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
  expected.spec.type = "shell";
  expected.spec.program.emplace().shell = "echo hello";
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
  EXPECT_EQ(a.needs,
            requirements(2000, 4 * kGiB, {2, "A100", 40 * kGiB}, "eu", {"docker"}, {{"a", "1"}, {"rack", "b7"}}));
  EXPECT_EQ(b.needs,
            requirements(500, 4 * kGiB, {2, "A100", 80 * kGiB}, "us", {"a", "b"}, {{"a", "1"}, {"rack", "b7"}}));
  EXPECT_EQ(c.needs, requirements(250, 4 * kGiB, {}, "eu", {"docker"}, {}));
  EXPECT_EQ(b.pinned, "w7");
  EXPECT_EQ(a.retry, (model::Retry{5, 1000, 1500, 300'000, 0}));
  EXPECT_EQ(b.retry, (model::Retry{5, 1000, 1500, 60'000, 2000}));
  EXPECT_EQ(c.retry.max_attempts, 1);
  EXPECT_EQ(a.spec.timeout_ms, 10'000);
  EXPECT_EQ(b.spec.timeout_ms, 1);
  EXPECT_EQ(stage("run: x, resources: {hardware: {gpu: {type: T4}}}").needs.gpu, (model::DeviceRequest{1, "T4", 0}));
}

// B-5: named counted resources are inherited as a whole.
TEST(Workflow, NamedResources) {
  const WorkflowFile file = spec(R"(
  resources: {named: {licence: 2, db: 1}}
  stages:
    - {name: a, run: x}
    - {name: b, run: x, resources: {named: {port: 3}}}
)");
  EXPECT_THAT(file.spec.templates[0].needs.named,
              ElementsAre(model::NamedAmount{"db", 1}, model::NamedAmount{"licence", 2}));
  EXPECT_THAT(file.spec.templates[1].needs.named, ElementsAre(model::NamedAmount{"port", 3}));
  const WorkflowFile wrong = read_workflow(
      {"w.yaml", std::string(kHead) + "  stages:\n    - {name: a, run: x, resources: {named: {licence: none}}}\n"});
  ASSERT_THAT(wrong.problems, SizeIs(1));
  EXPECT_EQ(wrong.problems[0].message,
            "the resource 'licence' is 'none'; it must be a whole number from 1 to 1000000000");
}

TEST(Workflow, WhatAStageRuns) {
  EXPECT_EQ(spec_of("run: 'a \"b\"'"), R"(type=shell program={shell="a \"b\""})");
  EXPECT_EQ(spec_of("run: [sleep, 1, '']"), R"(type=shell program={arguments=[sleep 1 ""]})");
  EXPECT_EQ(spec_of("run: x, env: {A: 1, B: true}, timeout: 2s, limits: {memory: 1KiB, cpu_time: 1m, open_files: 9, "
                    "processes: 3}"),
            "type=shell program={shell=x environment=[{name=A value=1} {name=B value=true}] "
            "limits={cpu_time_ms=60000 memory_bytes=1024 open_files=9 processes=3}} timeout_ms=2000");
  EXPECT_EQ(stage("run: x, inputs: {i: [1, 1.50, ~, yes, true, '1', 2024-01-02], o: {}}").spec.inputs,
            R"({"i":[1,1.50,null,"yes",true,"1","2024-01-02"],"o":{}})");
  EXPECT_EQ(spec_of("run: x, cache: true"), "type=shell program={shell=x} cache={}");
  EXPECT_EQ(spec_of("run: x, cache: false"), "type=shell program={shell=x}");
  EXPECT_EQ(spec_of("run: x, cache: {files: [a.txt, 'b/*']}"),
            "type=shell program={shell=x} cache={files=[a.txt b/*]}");
  EXPECT_EQ(spec_of("run: x, cache: {outputs: out}"), "type=shell program={shell=x} cache={outputs=[out]}");
  const TaskTemplate handler = stage("handler: resize, inputs: {w: 3}");
  EXPECT_EQ(handler.spec.inputs, R"({"w":3})");
  EXPECT_EQ(handler.spec.type, "resize");
  EXPECT_FALSE(handler.spec.program.has_value());
}

TEST(Workflow, ProgramsRunWhereTheFileIsUnlessTheySay) {
  const auto directory = [](std::string_view keys, std::string file_directory = {}) {
    return stage(keys, std::move(file_directory)).spec.program->directory;
  };
  EXPECT_EQ(directory("run: x", "/srv/w"), "/srv/w");
  EXPECT_EQ(directory("run: x, dir: sub", "/srv/w"), "/srv/w/sub");
  EXPECT_EQ(directory("run: x, dir: /tmp", "/srv/w"), "/tmp");
  EXPECT_EQ(directory("run: x, dir: sub"), "sub");
  EXPECT_EQ(directory("run: x", "/a${b.result}"), "/a$${b.result}");
  EXPECT_EQ(spec_of("handler: x", "/srv/w"), "type=x");
}

TEST(Workflow, EnvIsInheritedNameByName) {
  const WorkflowFile file =
      spec("  env: {A: 1, B: 2}\n  stages:\n    - {name: a, run: x, env: {C: 3, A: 4}}\n    - {name: h, handler: f}\n");
  EXPECT_EQ(text_of(file.spec.templates[0].spec),
            "type=shell program={shell=x environment=[{name=A value=4} {name=B value=2} {name=C value=3}]}");
  EXPECT_EQ(text_of(file.spec.templates[1].spec), "type=f");
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
  const model::ProgramSpec& program = *file.spec.templates[1].spec.program;
  EXPECT_EQ(
      program.shell,
      "echo \"$${ROTA_REF_1}\" $${HOME} $X $${V-1.2} $${W:-a.b} $${arr[0]} $${ROTA_REF_1} $${ROTA_REF_2} $${lit.x}");
  EXPECT_THAT(
      program.environment,
      ElementsAre(model::Variable{"N", "${a-b.result.n}"}, model::Variable{"T", "n=${a-b.result.n}"},
                  model::Variable{"ROTA_REF_1", "${a-b.result.x}"}, model::Variable{"ROTA_REF_2", "${task.attempt}"}));
  class Evil final : public model::ReferenceScope {
    Result<std::string_view> value(std::string_view root, std::string_view) override {
      return std::string_view(root == "task" ? "2" : R"({"x": "'; rm -rf / #${HOME}", "n": 7})");
    }
  } evil;
  const auto resolved = model::resolve_references(file.spec.templates[1].spec, evil);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->program->shell,
            "echo \"${ROTA_REF_1}\" ${HOME} $X ${V-1.2} ${W:-a.b} ${arr[0]} ${ROTA_REF_1} ${ROTA_REF_2} ${lit.x}");
  EXPECT_THAT(resolved->program->environment,
              ElementsAre(model::Variable{"N", "7"}, model::Variable{"T", "n=7"},
                          model::Variable{"ROTA_REF_1", "'; rm -rf / #${HOME}"}, model::Variable{"ROTA_REF_2", "2"}));
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
  EXPECT_THAT(b.spec.program->arguments, ElementsAre("cp", "${a.result.from}", "$${HOME}/${a.result.to}"));
  EXPECT_EQ(b.spec.program->directory, "${a.result.dir}");
  EXPECT_EQ(b.spec.inputs, R"({"model":"${a.result}","list":["${task.index}"]})");
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
      "  stages:\n    - {name: a, run: x, priority: -4, type: sft, batch: true, checkpoint: true,"
      " context: {models: [llama-3], datasets: c4}}\n"
      "    - {name: b, run: x, type: sft, category: other}\n    - {name: c, handler: inference}\n");
  const TaskTemplate& a = file.spec.templates[0];
  EXPECT_EQ(file.spec.stages[0].priority, -4);
  EXPECT_EQ(a.spec.type, "sft");
  EXPECT_EQ(a.category, model::Category::kTraining);
  EXPECT_TRUE(a.mergeable && a.preemptible && a.spec.program->batch);
  EXPECT_THAT(a.context, ElementsAre("dataset:c4", "model:llama-3"));
  EXPECT_EQ(file.spec.templates[1].category, model::Category::kOther);
  EXPECT_EQ(file.spec.templates[2].category, model::Category::kInference);
}

// Contract: B-12. A program is merged only if it declares that it accepts a batch, and then its values are in the
// inputs.
// Y-4: stages of finally come after the others; they are a list or a mapping, and get templates as others do.
TEST(Workflow, HowAWorkflowEnds) {
  WorkflowFile file = spec(
      "  templates: {t: {run: y, when: success}}\n"
      "  stages: [{name: a, run: x}, {name: b, run: x, when: failure}, {name: c, run: x, when: always, needs: [a, "
      "b]}]\n"
      "  finally: [{name: d, run: 'echo \"${workflow.state} ${a.state} ${c.error}\"'}, {name: e, use: t}]\n");
  ASSERT_THAT(file.spec.stages, SizeIs(5));
  const auto when = [&](std::size_t i) { return file.spec.stages[i].when; };
  EXPECT_THAT((std::vector{when(0), when(1), when(2), when(3), when(4)}),
              ElementsAre(model::When::kSuccess, model::When::kFailure, model::When::kAlways, model::When::kAlways,
                          model::When::kSuccess));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(file.spec.stages[i].finally, i >= 3) << i;
  EXPECT_THAT(file.spec.stages[1].needs, ElementsAre(0U));
  EXPECT_THAT(file.spec.stages[3].needs, IsEmpty());
  EXPECT_THAT(file.spec.stages[4].needs, ElementsAre(3U));
  file = spec("  graph: {a: {run: x}}\n  finally: {b: {run: x, needs: c}, c: {run: x}}\n");
  ASSERT_THAT(file.spec.stages, SizeIs(3));
  EXPECT_THAT(file.spec.stages[1].needs, ElementsAre(2U));
  EXPECT_THAT(file.spec.stages[2].needs, IsEmpty());
}

// Y-3, Y-5: limits and dependencies by item are part of the workflow, for a host as well.
TEST(Workflow, LimitsAndItems) {
  const WorkflowFile file = spec(
      "  deadline: 1m\n  fail_fast: true\n  stages:\n"
      "    - {name: a, run: x, matrix: {s: [1, 2]}, parallel: 1}\n"
      "    - {name: b, run: x, matrix: {s: [2, 1], t: [3]}, needs: [{stage: a, each: s}]}\n");
  EXPECT_EQ(file.spec.deadline_ms, 60'000);
  EXPECT_TRUE(file.spec.fail_fast);
  ASSERT_THAT(file.spec.stages, SizeIs(2));
  EXPECT_EQ(file.spec.stages[0].parallel, 1);
  EXPECT_THAT(file.spec.stages[1].needs, ElementsAre(0U));
  EXPECT_THAT(file.spec.stages[1].each, ElementsAre(model::ItemNeed{0, {"s"}}));
}

TEST(Workflow, AProgramIsMergedOnlyIfItAcceptsABatch) {
  const auto problem_of = [](const std::string& stage) {
    const WorkflowFile file = read_workflow({"f.yaml", "apiVersion: rota/v1\nspec:\n  stages:\n    - " + stage + "\n"});
    return file.problems.empty() ? std::string() : file.problems.front().message;
  };
  EXPECT_THAT(problem_of("{name: a, run: x, merge: true}"), testing::HasSubstr("batch: true"));
  EXPECT_THAT(problem_of("{name: a, handler: x, batch: true}"), testing::HasSubstr("merge is enough"));
  EXPECT_THAT(problem_of("{name: a, run: 'x ${matrix.i}', batch: true, matrix: {i: [1, 2]}}"),
              testing::HasSubstr("put it into inputs"));
  EXPECT_EQ(problem_of("{name: a, run: x, batch: true, matrix: {i: [1, 2]}, inputs: {i: '${matrix.i}'}}"), "");
  EXPECT_EQ(problem_of("{name: a, handler: x, merge: true}"), "");
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

// The shell gets the text of the file unchanged except for its references, whatever the text is.
RC_GTEST_PROP(WorkflowProperty, AShellGetsItsTextUnchanged, ()) {
  std::string text;
  for (const int i : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 8))) {
    text.append(std::vector<std::string>{"${", "}", "$ ", "A", ":-x.y", "\"", "\\", "-1"}[static_cast<std::size_t>(i)]);
  }
  const ShellText read = read_shell_text(text, [](std::string_view) { return false; });
  RC_PRE(read.variables.empty() && read.problems.empty());
  std::string resolved;
  for (std::size_t i = 0; i < read.text.size(); ++i) {
    if (read.text.compare(i, 3, "$${") == 0) continue;
    resolved.push_back(read.text[i]);
  }
  RC_ASSERT(resolved == text);
}

TEST(Source, IsReadWithItsDirectory) {
  EXPECT_EQ(read_source("/nowhere/x.yaml").code(), ErrorCode::kNotFound);
  EXPECT_EQ(read_source("/tmp").code(), ErrorCode::kInvalidArgument);
  const auto source = read_source(std::string(kSourceDir) + "/docs/../README.md");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->directory, kSourceDir);
}

}  // namespace
}  // namespace rota::workflow
