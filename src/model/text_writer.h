// Values with ROTA_FIELDS as text: one line for people, scripts and tests; JSON for other software.
//
//   TaskAssigned task=wf-1.0 attempt=1 worker=worker-2 reasoning={why=score candidates=3}
//
//   line   = name { " " field }
//   field  = name "=" value                  in any order, each once; a member with its default value is left out
//   value  = number | "true" | "false" | enumerator | id | text | "{" fields "}" | "[" values "]"
//   text   = word | '"' { character | \" | \\ | \n | \xNN } '"'
//   word   = printable ASCII without space and without any of \ " = { } [ ]
//
// Fields and values are separated by spaces. text_parser.h reads a line back to the same value, whatever bytes its
// texts have.
//
// JSON has every field: numbers as numbers, enumerators by name, ids with a prefix as strings (none is null).
//
// Thread safety: functions without state; objects none.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/json_text.h"
#include "model/codec.h"

namespace rota::model {

namespace detail {
template <class T>
concept WritesEnumerators = T::kWritesEnumerators;

// Appends `text`, in quotes unless it is a word.
void append_text(std::string& out, std::string_view text);

// The encoded members of a default value: a member with the same bytes is left out of the text.
template <class T>
std::vector<std::string> default_members() {
  std::vector<std::string> members;
  const T value{};
  T::fields(value, [&members](std::string_view, const auto& member) { encode(member, members.emplace_back()); });
  return members;
}

}  // namespace detail

class TextWriter {
 public:
  explicit TextWriter(std::string& out) : out_(out) {}

  template <class T>
  void value(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.append(value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
      out_.append(to_string(value));
    } else if constexpr (std::integral<T>) {
      out_.append(std::to_string(value));
    } else if constexpr (detail::is_id<T>) {
      out_.append(value.to_string());
    } else if constexpr (std::is_same_v<T, std::string>) {
      detail::append_text(out_, value);
    } else if constexpr (detail::is_optional<T>) {
      if (value) {
        this->value(*value);
      } else {
        out_.append("none");
      }
    } else if constexpr (detail::is_vector<T>) {
      out_.push_back('[');
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) out_.push_back(' ');
        this->value(value[i]);
      }
      out_.push_back(']');
    } else {
      out_.push_back('{');
      fields(value, "");
      out_.push_back('}');
    }
  }

  // The fields that differ from their default, with `before` in front of the first. In a struct with a name of its own
  // (a command, an event, a message), or with kWritesEnumerators, an enumerator says what the line is about: it is left
  // out only if its name is "none".
  template <class T>
  void fields(const T& value, std::string_view before) {
    constexpr bool kTells = detail::HasName<T> || detail::WritesEnumerators<T>;
    const std::vector<std::string> defaults = detail::default_members<T>();
    std::size_t number = 0;
    std::string bytes;
    T::fields(value, [&](std::string_view name, const auto& member) {
      bytes.clear();
      encode(member, bytes);
      bool left_out = bytes == defaults[number++];
      if constexpr (kTells && std::is_enum_v<std::remove_cvref_t<decltype(member)>>) {
        left_out = to_string(member) == "none";
      }
      if (left_out) return;
      out_.append(before).append(name).push_back('=');
      this->value(member);
      before = " ";
    });
  }

 private:
  std::string& out_;
};

class JsonFieldWriter {
 public:
  explicit JsonFieldWriter(std::string& out) : out_(out) {}

  template <class T>
  void value(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.append(value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
      append_json_string(out_, to_string(value));
    } else if constexpr (std::integral<T>) {
      out_.append(std::to_string(value));
    } else if constexpr (detail::is_id<T>) {
      if constexpr (!detail::HasPrefix<T>) {
        out_.append(std::to_string(value.value()));
      } else if (value.is_none()) {
        out_.append("null");
      } else {
        append_json_string(out_, value.to_string());
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      append_json_string(out_, value);
    } else if constexpr (detail::is_optional<T>) {
      if (value) {
        this->value(*value);
      } else {
        out_.append("null");
      }
    } else if constexpr (detail::is_vector<T>) {
      out_.push_back('[');
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) out_.append(", ");
        this->value(value[i]);
      }
      out_.push_back(']');
    } else {
      out_.push_back('{');
      fields(value, "");
      out_.push_back('}');
    }
  }

  template <class T>
  void fields(const T& value, std::string_view before) {
    T::fields(value, [&](std::string_view name, const auto& member) {
      out_.append(before);
      append_json_string(out_, name);
      out_.append(": ");
      this->value(member);
      before = ", ";
    });
  }

 private:
  std::string& out_;
};

// "TaskReadied task=wf-1.0": the name of the variant's alternative and its fields.
template <class Variant>
[[nodiscard]] std::string variant_to_text(const Variant& variant) {
  std::string out;
  std::visit(
      [&out](const auto& value) {
        out.append(value.kName);
        TextWriter(out).fields(value, " ");
      },
      variant);
  return out;
}

// {"event": "TaskReadied", "task": "wf-1.0"}, with `kind` as the name of the first member.
template <class Variant>
[[nodiscard]] std::string variant_to_json(std::string_view kind, const Variant& variant) {
  std::string out = "{";
  append_json_string(out, kind);
  out.append(": ");
  std::visit(
      [&out](const auto& value) {
        append_json_string(out, value.kName);
        JsonFieldWriter(out).fields(value, ", ");
      },
      variant);
  out.push_back('}');
  return out;
}

}  // namespace rota::model
