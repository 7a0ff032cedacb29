#include "rota/flow/values.h"

#include <cxxabi.h>

#include <cstdlib>

namespace rota::flow {

std::string Value::type_name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : type.name();
}

Error Values::missing(std::string_view name) const {
  std::string text = "there is no value '" + std::string(name) + "'; there ";
  text += values_.empty() ? "are none" : values_.size() == 1 ? "is" : "are";
  for (const auto& [known, value] : values_) text += " '" + known + "'";
  return Error{ErrorCode::kNotFound, std::move(text)}.with("value", std::string(name));
}

Error Values::mistyped(std::string_view name, const Value& value, const std::string& asked) {
  return Error{ErrorCode::kInvalidArgument,
               "the value '" + std::string(name) + "' is a " + value.type_name() + ", not a " + asked}
      .with("value", std::string(name));
}

}  // namespace rota::flow
