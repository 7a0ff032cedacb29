// Reads commands and structs from text; see model/text_parser.h.
#include <type_traits>

#include "fleet/codec.h"
#include "fleet/text.h"
#include "fleet/what_if.h"
#include "model/text_parser.h"

namespace rota::fleet {

template <class T>
Result<void> parse_fields(std::string_view text, T& value) {
  TextParser parser(text);
  if (!read_all(parser, value, "this")) return parser.take_error();
  return {};
}

template Result<void> parse_fields(std::string_view, Policy&);
template Result<void> parse_fields(std::string_view, WorkerSpec&);
template Result<void> parse_fields(std::string_view, TaskTemplate&);
template Result<void> parse_fields(std::string_view, WorkflowSpec&);
template Result<void> parse_fields(std::string_view, SetQuota&);
template Result<void> parse_fields(std::string_view, FleetChange&);

namespace {
template <class... T>
Result<Command> parse_one_of(std::string_view text, std::type_identity<std::variant<T...>>) {
  TextParser parser(text);
  parser.skip_spaces();
  const std::size_t start = parser.position();
  const std::string_view name = parser.word();
  Command command;
  bool fine = false;
  const auto try_one = [&]<class One>(std::type_identity<One>) {
    if (name != One::kName) return false;
    fine = read_all(parser, command.template emplace<One>(), One::kName);
    return true;
  };
  if (!(try_one(std::type_identity<T>()) || ...)) {
    const std::vector<std::string> names = {std::string(T::kName)...};
    parser.fail(start,
                (name.empty() ? "expected a command: " : "unknown command '" + printable(name) + "'; commands are ") +
                    model::detail::joined(names) + model::detail::did_you_mean(name, names));
  }
  if (!fine) return parser.take_error();
  return command;
}
}  // namespace

Result<Command> parse_command(std::string_view text) { return parse_one_of(text, std::type_identity<Command>()); }

}  // namespace rota::fleet
