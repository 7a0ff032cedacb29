// The transitions of JsonWriter: which call may follow which, and the commas between them. See base/json_writer.h.
#include "base/json_writer.h"

#include <exception>

#include "base/json_text.h"

namespace rota {

JsonWriter::JsonWriter(std::string& out) : out_(out) {}

JsonWriter::~JsonWriter() {
  ROTA_ASSERT(next_ == Next::kNothing || std::uncaught_exceptions() > 0, "the JSON value is incomplete: ", out_);
}

void JsonWriter::before_value() {
  if (next_ == Next::kElement) out_.push_back(',');
  ROTA_ASSERT(
      next_ == Next::kValue || next_ == Next::kFirstElement || next_ == Next::kElement,
      next_ == Next::kNothing ? "a second value after the end of the first: " : "a member without a key: ", out_);
}

void JsonWriter::after_value() {
  next_ = open_.empty() ? Next::kNothing : open_.back() == '}' ? Next::kKey : Next::kElement;
}

JsonWriter& JsonWriter::open(char bracket, Next next) {
  before_value();
  out_.push_back(bracket);
  open_.push_back(bracket == '{' ? '}' : ']');
  next_ = next;
  return *this;
}

void JsonWriter::close(char bracket) {
  ROTA_ASSERT(!open_.empty() && open_.back() == bracket, "no matching container is open: ", out_);
  ROTA_ASSERT(next_ != Next::kValue, "a key without a value: ", out_);
  out_.push_back(bracket);
  open_.pop_back();
  after_value();
}

JsonWriter& JsonWriter::begin_object() { return open('{', Next::kFirstKey); }
JsonWriter& JsonWriter::begin_array() { return open('[', Next::kFirstElement); }

JsonWriter& JsonWriter::end_object() {
  close('}');
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  close(']');
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  ROTA_ASSERT(next_ == Next::kFirstKey || next_ == Next::kKey, "no member can start here: ", out_);
  if (next_ == Next::kKey) out_.push_back(',');
  append_json_string(out_, name);
  out_.push_back(':');
  next_ = Next::kValue;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_json_string(out_, text);
  after_value();
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_.append(json);
  after_value();
  return *this;
}

}  // namespace rota
