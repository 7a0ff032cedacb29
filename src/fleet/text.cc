#include "fleet/text.h"

#include "fleet/codec.h"
#include "fleet/record.h"
#include "model/text_writer.h"

namespace rota::fleet {

std::string to_text(const Command& command) { return variant_to_text(command); }
std::string to_text(const Event& event) { return variant_to_text(event); }
std::string to_json(const Command& command) { return variant_to_json("command", command); }
std::string to_json(const Event& event) { return variant_to_json("event", event); }

template <class T>
std::string fields_to_text(const T& value) {
  std::string out;
  TextWriter(out).fields(value, "");
  return out;
}
template <class T>
std::string fields_to_json(const T& value) {
  std::string out;
  JsonFieldWriter(out).value(value);
  return out;
}

template std::string fields_to_text(const Policy&);
template std::string fields_to_text(const WorkerSpec&);
template std::string fields_to_text(const TaskTemplate&);
template std::string fields_to_text(const WorkflowSpec&);
template std::string fields_to_text(const SetQuota&);
template std::string fields_to_text(const Reasoning&);
template std::string fields_to_json(const Policy&);
template std::string fields_to_json(const WorkerSpec&);
template std::string fields_to_json(const TaskTemplate&);
template std::string fields_to_json(const WorkflowSpec&);
template std::string fields_to_json(const SetQuota&);
template std::string fields_to_json(const Reasoning&);
template std::string fields_to_json(const Origin&);

}  // namespace rota::fleet
