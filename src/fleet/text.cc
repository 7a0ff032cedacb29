#include "fleet/text.h"

#include <concepts>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/json_text.h"
#include "fleet/codec.h"

namespace rota::fleet {

namespace {

bool is_word(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f || std::string_view("\"={}[]\\").find(c) != std::string_view::npos) return false;
  }
  return true;
}

void append_text(std::string& out, std::string_view text) {
  if (is_word(text)) {
    out.append(text);
    return;
  }
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find_first_of("\"\\\n"), text.size());
    // Control characters and what is not UTF-8 become \xNN.
    out.append(printable(text.substr(0, plain), std::numeric_limits<std::size_t>::max()));
    text.remove_prefix(plain);
    if (text.empty()) break;
    out.push_back('\\');
    out.push_back(text.front() == '\n' ? 'n' : text.front());
    text.remove_prefix(1);
  }
  out.push_back('"');
}

// The bytes of each member of a default value, to leave those out that are the same.
template <class T>
std::vector<std::string> default_members() {
  std::vector<std::string> members;
  const T value{};
  T::fields(value, [&members](std::string_view, const auto& member) { encode(member, members.emplace_back()); });
  return members;
}

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
      append_text(out_, value);
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

  // Those that are not their default, with `before` in front of the first. Enumerators of a command, an event or a
  // reasoning say what it is about: a default one ("succeeded", "pause") is left out only if it is "none".
  template <class T>
  void fields(const T& value, std::string_view before) {
    constexpr bool kTells = detail::HasName<T> || std::is_same_v<T, Reasoning>;
    const std::vector<std::string> defaults = default_members<T>();
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

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  template <class T>
  void value(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.append(value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
      append_json_string(out_, to_string(value));
    } else if constexpr (std::integral<T>) {
      out_.append(std::to_string(value));
    } else if constexpr (detail::is_id<T>) {
      if (value.is_none()) {
        out_.append("null");
      } else {
        append_json_string(out_, value.to_string());
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      append_json_string(out_, value);
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

template <class Variant>
std::string variant_to_text(const Variant& variant) {
  std::string out;
  std::visit(
      [&out](const auto& value) {
        out.append(value.kName);
        TextWriter(out).fields(value, " ");
      },
      variant);
  return out;
}

template <class Variant>
std::string variant_to_json(std::string_view kind, const Variant& variant) {
  std::string out = "{";
  append_json_string(out, kind);
  out.append(": ");
  std::visit(
      [&out](const auto& value) {
        append_json_string(out, value.kName);
        JsonWriter(out).fields(value, ", ");
      },
      variant);
  out.push_back('}');
  return out;
}

}  // namespace

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
  JsonWriter(out).value(value);
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

}  // namespace rota::fleet
