// Builds one explanation; shared by explain.cc and explain_ready.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fleet/explain.h"
#include "fleet/state.h"

namespace rota::fleet {

class Explainer {
 public:
  // REQUIRES: the task exists; now_ns is at least the state's time; all arguments outlive it.
  Explainer(const State& state, TaskId task, const TaskAssigned* assigned, std::int64_t now_ns,
            const WorkerNames& names);

  [[nodiscard]] Explanation run() &&;

 private:
  void queued();
  void waits_for_items();
  void paused();
  void running();
  void succeeded();
  void failed();
  void cancelled();
  void placement();  // Where a task runs or ran, and why there.
  void cache_note();

  // explain_ready.cc
  void ready();
  void unplaceable(const Shape& shape);
  [[nodiscard]] bool over_quota(const Shape& shape);
  [[nodiscard]] bool over_fleet(const Shape& shape);
  void gang(const Shape& shape);
  void one_worker(ExplainReason reason, const Worker& worker, const std::string& what);
  void no_room(const Shape& shape);
  void place_in_order();

  void because(ExplainReason reason, std::string words);  // Begins the sentence: the name of the task and these words.
  void also(std::string_view words) { out_.sentence.append(words); }
  void fact(std::string_view key, std::int64_t value);
  void fact(std::string_view key, std::string_view text);
  [[nodiscard]] std::string stage_progress(std::uint32_t stage) const;
  [[nodiscard]] std::string worker_name(WorkerId id) const;
  [[nodiscard]] std::string mode_name() const;

  const State& state_;
  const Workflow& workflow_;
  const Task& task_;
  const TaskTemplate& use_;
  const TaskAssigned* assigned_;
  const std::int64_t now_ns_;
  const WorkerNames& names_;  // Of workers that the state has forgotten.
  Explanation out_;
};

}  // namespace rota::fleet
