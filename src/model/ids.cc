#include "rota/model/ids.h"

#include <charconv>

namespace rota::model {

std::string TaskId::to_string() const {
  std::string text = workflow().to_string();
  text.push_back('.');
  char digits[10];
  const auto end = std::to_chars(digits, digits + sizeof digits, index()).ptr;
  return text.append(digits, end);
}

std::optional<TaskId> TaskId::parse(std::string_view text) noexcept {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<WorkflowId> workflow = WorkflowId::parse(text.substr(0, dot));
  struct Index {};  // Without a prefix: digits alone.
  const auto index = Id<Index, std::uint32_t>::parse(text.substr(dot + 1));
  if (!workflow || !index || index->value() > kMostTasks) return std::nullopt;
  const TaskId task(*workflow, index->value());
  if (task.workflow() != *workflow) return std::nullopt;  // More than the 40 bits that are left for it.
  return task;
}

}  // namespace rota::model
