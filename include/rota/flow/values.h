// Values that stages pass on: of any copyable or movable type, by name, shared, and immutable once they are set.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "rota/result.h"

namespace rota::flow {

// One value of some type. Copies share it.
class Value {
 public:
  Value() = default;
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, Value>)
  explicit Value(T&& value)
      : data_(std::make_shared<const std::decay_t<T>>(std::forward<T>(value))), type_(&typeid(std::decay_t<T>)) {}

  [[nodiscard]] bool has_value() const { return type_ != nullptr; }
  // The value if its type is exactly T, otherwise null.
  template <class T>
  [[nodiscard]] const T* get_if() const {
    return type_ != nullptr && *type_ == typeid(T) ? static_cast<const T*>(data_.get()) : nullptr;
  }
  // The type's name, for messages.
  [[nodiscard]] std::string type_name() const { return type_ == nullptr ? "nothing" : type_name_of(*type_); }
  [[nodiscard]] static std::string type_name_of(const std::type_info& type);

 private:
  std::shared_ptr<const void> data_;
  const std::type_info* type_ = nullptr;
};

// Values by name. A string literal is stored as a std::string.
class Values {
 public:
  template <class T>
  void set(std::string_view name, T&& value) {
    if constexpr (std::is_convertible_v<T&&, std::string_view> && !std::is_same_v<std::decay_t<T>, std::string>) {
      values_.insert_or_assign(std::string(name), Value(std::string(std::string_view(value))));
    } else if constexpr (std::is_same_v<std::decay_t<T>, Value>) {
      values_.insert_or_assign(std::string(name), std::forward<T>(value));
    } else {
      values_.insert_or_assign(std::string(name), Value(std::forward<T>(value)));
    }
  }
  // Errors: NotFound, with the existing names; InvalidArgument if the value has another type. The pointer is valid as
  // long as this object.
  template <class T>
  [[nodiscard]] Result<const T*> get(std::string_view name) const {
    const auto at = values_.find(name);
    if (at == values_.end()) return missing(name);
    if (const T* value = at->second.get_if<T>(); value != nullptr) return value;
    return mistyped(name, at->second, Value::type_name_of(typeid(T)));
  }
  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  // Adds the values of `other` whose names this object does not have.
  void merge_from(const Values& other) { values_.insert(other.values_.begin(), other.values_.end()); }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }

 private:
  [[nodiscard]] Error missing(std::string_view name) const;
  [[nodiscard]] static Error mistyped(std::string_view name, const Value& value, const std::string& asked);

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace rota::flow
