// Reading JSON. See workflow/document.h.
#include "model/json.h"
#include "workflow/document_builder.h"

namespace rota::workflow {
namespace {

class JsonReader final : public model::JsonVisitor {
 public:
  JsonReader(std::string_view text, Problems& problems, std::uint32_t file)
      : builder(text, problems, file), text_(text) {}

  Result<void> token(model::JsonToken token, std::string_view raw, std::size_t at) override {
    using model::JsonToken;
    const Position where = position(at);
    bool more = true;
    if (token == JsonToken::kKey || token == JsonToken::kString) {
      more = builder.scalar(model::json_unescape(raw), false, where);
    } else if (token == JsonToken::kScalar) {
      more = builder.scalar(raw, true, where);
    } else if (raw == "{" || raw == "[") {
      more = builder.open(raw == "{" ? Node::Kind::kMap : Node::Kind::kList, where);
    } else if (raw == "}" || raw == "]") {
      more = builder.close();
    }
    if (!more) return ErrorCode::kTooLarge;
    return {};
  }
  DocumentBuilder builder;

 private:
  // Places are asked for in the order of the text.
  Position position(std::size_t at) {
    for (; seen_ < at; ++seen_) {
      if (text_[seen_] == '\n') {
        ++here_.line;
        here_.column = 1;
      } else if ((static_cast<unsigned char>(text_[seen_]) & 0xc0U) != 0x80) {
        ++here_.column;
      }
    }
    return here_;
  }
  std::string_view text_;
  std::size_t seen_ = 0;
  Position here_{1, 1};
};

}  // namespace

std::optional<Document> read_json_document(std::string_view text, Problems& problems, std::uint32_t file) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '{') return std::nullopt;
  Problems found;
  JsonReader reader(text, found, 0);
  if (!model::json_walk(text, reader).ok()) return std::nullopt;  // YAML's reader says why, or knows how to read it.
  for (Problem& problem : found.take()) {
    problem.at.file = file;
    problems.add(problem.at, std::move(problem.message));
  }
  if (file == 0) return reader.builder.finish();
  JsonReader placed(text, found, file);  // Again, with the file in the positions: this file is included.
  (void)model::json_walk(text, placed);
  return placed.builder.finish();
}

}  // namespace rota::workflow
