// Turns a text into a film: storyboard, images, speech, clips and the cut, under CPU, RAM and VRAM limits, with a
// progress display.
//
//   story [images] [milliseconds per step]
//
// The stages are fake, but shaped like real ones: they take time in steps, need memory, hand values on, and can be
// paused and cancelled between the steps. The STV_* variables choose the scheduler and its limits.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "rota/fiber.h"
#include "rota/flow.h"

namespace {

using rota::Result;
using rota::flow::StageContext;
using rota::flow::Workflow;
using rota::flow::WorkflowReport;

// Works for `steps` steps; each is a checkpoint.
void work(StageContext& context, int steps, int step_ms) {
  for (int i = 1; i <= steps; ++i) {
    if (!rota::fiber::sleep_for(std::chrono::milliseconds(step_ms)).ok()) context.checkpoint();
    context.progress(static_cast<double>(i) / steps);
  }
}

Workflow film(int images, int step_ms) {
  Workflow film{.name = "film", .stages = {}};
  film.stages.push_back({.id = "storyboard",
                         .run =
                             [=](StageContext& context) {
                               work(context, 3, step_ms);
                               for (int i = 0; i < images; ++i) {
                                 context.output("scene" + std::to_string(i), "scene " + std::to_string(i));
                               }
                             },
                         .priority = 10,
                         .resource_demand = {.cpu_slots = 1, .ram_mb = 500}});
  film.stages.push_back({.id = "speech",
                         .run =
                             [=](StageContext& context) {
                               work(context, 5, step_ms);
                               context.output("speech", std::string("speech.wav"));
                             },
                         .deps = {"storyboard"},
                         .resource_demand = {.cpu_slots = 1, .ram_mb = 1000}});
  std::vector<std::string> clips;
  for (int i = 0; i < images; ++i) {
    const std::string number = std::to_string(i);
    film.stages.push_back({.id = "image" + number,
                           .run = [=](StageContext& context) -> Result<void> {
                             ROTA_TRY_ASSIGN(const std::string* scene, context.input<std::string>("scene" + number));
                             work(context, 4, step_ms);
                             context.output("image", *scene + ".png");
                             return {};
                           },
                           .deps = {"storyboard"},
                           .priority = 5,
                           .resource_demand = {.cpu_slots = 1, .ram_mb = 1500, .vram_mb = 6000},
                           .retry = {.max_attempts = 2, .backoff_ms = 10}});
    film.stages.push_back({.id = "clip" + number,
                           .run = [=](StageContext& context) -> Result<void> {
                             ROTA_TRY_ASSIGN(const std::string* image, context.input<std::string>("image"));
                             work(context, 2, step_ms);
                             context.output("clip" + number, *image + ".mp4");
                             return {};
                           },
                           .deps = {"image" + number},
                           .resource_demand = {.cpu_slots = 1, .ram_mb = 800, .vram_mb = 2000}});
    clips.push_back("clip" + number);
  }
  clips.emplace_back("speech");
  film.stages.push_back({.id = "compose",
                         .run = [=](StageContext& context) -> Result<void> {
                           std::string cut;
                           for (int i = 0; i < images; ++i) {
                             ROTA_TRY_ASSIGN(const std::string* clip,
                                             context.input<std::string>("clip" + std::to_string(i)));
                             cut += *clip + " ";
                           }
                           work(context, 3, step_ms);
                           context.output("film", cut);
                           return {};
                         },
                         .deps = clips,
                         .resource_demand = {.cpu_slots = 1, .ram_mb = 2000}});
  return film;
}

// A whole number from `low` to 10,000, or -1.
int number(const char* text, int low) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end == text || *end != '\0' || value < low || value > 10'000 ? -1 : static_cast<int>(value);
}

}  // namespace

int main(int argc, char** argv) {
  const int images = argc > 1 ? number(argv[1], 1) : 6;
  const int step_ms = argc > 2 ? number(argv[2], 0) : 40;
  if (argc > 3 || images < 0 || step_ms < 0) {
    const bool asked = argc == 2 && std::string_view(argv[1]) == "--help";
    std::fputs("usage: story [images, 1 to 10000; 6] [a step's length in ms, 0 to 10000; 40]\n",
               asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  auto scheduler = rota::flow::create_scheduler(
      {.workers = 4, .budget = {.cpu_slots_hard = 4, .ram_mb_soft = 6000, .vram_mb_soft = 12'000}});
  if (!scheduler.ok()) {
    std::fprintf(stderr, "%s\n", scheduler.error().to_string().c_str());
    return 1;
  }
  rota::flow::ProgressDisplay display(stderr);
  rota::flow::WorkflowEngine engine(std::move(*scheduler), display.observer());
  Result<std::string> id = engine.start_workflow(film(images, step_ms));
  if (!id.ok()) {
    std::fprintf(stderr, "%s\n", id.error().to_string().c_str());
    return 1;
  }
  const Result<WorkflowReport> report = engine.wait(*id);
  display.finish();
  for (const rota::flow::TaskInfo& task : report->tasks) {
    std::printf("%-20s %-10s waited %5lld ms, ran %5lld ms\n", task.descriptor.task_id.c_str(),
                std::string(rota::graph::to_string(task.state)).c_str(),
                static_cast<long long>(task.queue_wait / std::chrono::milliseconds(1)),
                static_cast<long long>((task.ended - task.started) / std::chrono::milliseconds(1)));
  }
  std::printf("%s: %s in %lld ms\n", id->c_str(), std::string(to_string(report->outcome)).c_str(),
              static_cast<long long>((report->ended - report->started) / std::chrono::milliseconds(1)));
  return report->outcome == rota::flow::WorkflowOutcome::kSucceeded ? 0 : 1;
}
