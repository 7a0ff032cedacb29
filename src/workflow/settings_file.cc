// Parses settings files with libyaml's event parser. See workflow/settings_file.h.
#include "workflow/settings_file.h"

#include <yaml.h>

#include <fstream>
#include <memory>

#include "base/json_text.h"

namespace rota::workflow {
namespace {

constexpr int kMaxSkippedDepth = 64;

class Flattener {
 public:
  Flattener(std::string path, std::string_view text) : path_(std::move(path)) {
    ROTA_ASSERT(yaml_parser_initialize(&parser_) == 1, "no memory for the YAML parser");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  Flattener(const Flattener&) = delete;
  Flattener& operator=(const Flattener&) = delete;
  ~Flattener() { yaml_parser_delete(&parser_); }

  SettingsFile run() {
    bool more = true;
    while (more) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        report_syntax();
        break;
      }
      const std::unique_ptr<yaml_event_t, void (*)(yaml_event_t*)> owner(&event, yaml_event_delete);
      more = handle(event);
    }
    return std::move(out_);
  }

 private:
  // A mapping that is open. `want_key` alternates; `key` is valid while it is false.
  struct Frame {
    std::string prefix;
    bool want_key = true;
    bool ignore_value = false;  // The key was unusable, which was reported.
    std::string key{};
  };

  [[nodiscard]] std::string where(const yaml_mark_t& mark) const {
    return path_ + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  }
  void report(const yaml_mark_t& mark, const std::string& problem) {
    out_.errors.push_back(where(mark) + ": " + problem);
  }
  void report_tag(const yaml_event_t& event) { report(event.start_mark, "tags are not allowed in a settings file"); }
  void report_syntax() {
    std::string text = parser_.problem != nullptr ? parser_.problem : "cannot be read as YAML";
    if (parser_.context != nullptr) text.append(" ").append(parser_.context);
    if (parser_.error == YAML_READER_ERROR) {
      out_.errors.push_back(path_ + ": byte " + std::to_string(parser_.problem_offset) + ": " + text);
    } else {
      report(parser_.problem_mark, text);
    }
  }

  // Returns false at the end of the stream.
  bool handle(const yaml_event_t& event) {
    if (skip_depth_ > 0) {
      skip(event);
      // libyaml's work per token grows with the nesting: half a million brackets would take hours. Settings are never
      // nested so deeply, so the rest is not read.
      return event.type != YAML_STREAM_END_EVENT && skip_depth_ <= kMaxSkippedDepth;
    }
    switch (event.type) {
      case YAML_STREAM_END_EVENT:
        return false;
      case YAML_DOCUMENT_START_EVENT:
        if (++documents_ == 2) report(event.start_mark, "a settings file has one document only");
        return documents_ < 2;
      case YAML_ALIAS_EVENT:
        report(event.start_mark, "aliases are not allowed in a settings file");
        node_done(/*usable=*/false);
        return true;
      case YAML_SCALAR_EVENT:
        scalar(event);
        return true;
      case YAML_SEQUENCE_START_EVENT:
        sequence_start(event);
        return true;
      case YAML_SEQUENCE_END_EVENT:
        in_list_ = false;
        node_done(true);
        return true;
      case YAML_MAPPING_START_EVENT:
        mapping_start(event);
        return true;
      case YAML_MAPPING_END_EVENT:
        frames_.pop_back();
        if (!frames_.empty()) node_done(true);
        return true;
      default:
        return true;
    }
  }

  // Skips an unusable node up to its end.
  void skip(const yaml_event_t& event) {
    if (event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT) ++skip_depth_;
    if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
      if (--skip_depth_ == 0) node_done(false);
    }
  }
  void start_skipping() { skip_depth_ = 1; }

  // A key or a value of the innermost mapping has ended.
  void node_done(bool usable) {
    if (frames_.empty() || in_list_) return;
    Frame& frame = frames_.back();
    if (frame.want_key && !usable) frame.ignore_value = true;
    if (!frame.want_key) frame.ignore_value = false;
    frame.want_key = !frame.want_key;
  }

  void scalar(const yaml_event_t& event) {
    const auto& value = event.data.scalar;
    std::string text(reinterpret_cast<const char*>(value.value), value.length);
    const bool plain = value.style == YAML_PLAIN_SCALAR_STYLE;
    const bool null = plain && (text.empty() || text == "~" || text == "null");
    if (value.tag != nullptr) {
      report_tag(event);
      node_done(false);
      return;
    }
    if (in_list_) {
      if (null) {
        report(event.start_mark, "a list item has no value");
      } else {
        out_.entries.back().items.push_back(std::move(text));
      }
      return;
    }
    if (frames_.empty()) {
      if (!null) report(event.start_mark, "a settings file is a mapping of names to values");
      return;
    }
    Frame& frame = frames_.back();
    if (frame.want_key) {
      frame.key = std::move(text);
      node_done(true);
      return;
    }
    if (!frame.ignore_value) {
      const std::string name = frame.prefix + frame.key;
      if (null) {
        report(event.start_mark, printable(name) + " has no value; give it one or remove the line");
      } else {
        out_.entries.push_back({.key = name, .where = where(event.start_mark), .text = std::move(text)});
      }
    }
    node_done(true);
  }

  void sequence_start(const yaml_event_t& event) {
    if (event.data.sequence_start.tag != nullptr) report_tag(event);
    if (in_list_) {
      report(event.start_mark, "a list holds plain values only");
    } else if (frames_.empty()) {
      report(event.start_mark, "a settings file is a mapping of names to values");
    } else if (frames_.back().want_key) {
      report(event.start_mark, "a name must be plain text");
    } else if (!frames_.back().ignore_value) {
      in_list_ = true;
      out_.entries.push_back(
          {.key = frames_.back().prefix + frames_.back().key, .where = where(event.start_mark), .is_list = true});
      return;
    }
    start_skipping();
  }

  void mapping_start(const yaml_event_t& event) {
    if (event.data.mapping_start.tag != nullptr) report_tag(event);
    if (in_list_) {
      report(event.start_mark, "a list holds plain values only");
    } else if (frames_.empty()) {
      frames_.push_back({.prefix = ""});
      return;
    } else if (frames_.back().want_key) {
      report(event.start_mark, "a name must be plain text");
    } else if (frames_.size() == kSettingsFileMaxDepth) {
      report(event.start_mark, "groups are nested too deeply");
    } else if (!frames_.back().ignore_value) {
      frames_.push_back({.prefix = frames_.back().prefix + frames_.back().key + "."});
      return;
    }
    start_skipping();
  }

  std::string path_;
  yaml_parser_t parser_{};
  SettingsFile out_;
  std::vector<Frame> frames_;
  bool in_list_ = false;
  int skip_depth_ = 0;
  int documents_ = 0;
};

}  // namespace

SettingsFile parse_settings_file(const std::string& path, std::string_view text) {
  if (text.size() > kSettingsFileMaxBytes) {
    return {.errors = {path + ": has " + std::to_string(text.size()) + " bytes; the limit is 1048576"}};
  }
  return Flattener(path, text).run();
}

Result<SettingsFile> read_settings_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::kNotFound, "the settings file " + path + " cannot be opened"}.with("path", path);
  std::string text(kSettingsFileMaxBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof())) {
    return Error{ErrorCode::kIoError, "the settings file " + path + " cannot be read"}.with("path", path);
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kSettingsFileMaxBytes) {
    return Error{ErrorCode::kTooLarge, "the settings file " + path + " has more than 1 MiB"}.with("path", path);
  }
  return parse_settings_file(path, text);
}

}  // namespace rota::workflow
