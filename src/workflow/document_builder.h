// Puts a Document together from what a parser finds, in the order of the text. For document*.cc alone.
//
// Every call returns false when a bound was reached: that is reported, and there is no sense in reading on.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "workflow/document.h"

namespace rota::workflow {

class DocumentBuilder {
 public:
  // `file`: the number of the file in the positions, unless the position has one.
  DocumentBuilder(std::string_view text, Problems& problems, std::uint32_t file = 0);

  bool scalar(std::string_view text, bool plain, Position at, std::string_view anchor = {});
  bool open(Node::Kind kind, Position at, std::string_view anchor = {});
  bool close();
  bool alias(std::string_view name, Position at);
  // REQUIRES: all that was opened is closed, and there was something.
  Document finish();
  [[nodiscard]] bool has_root() const { return has_root_; }

 private:
  struct Open {
    std::uint32_t node;
    std::size_t first;  // Its children are pending_ from here on.
    std::string anchor{};
  };
  std::uint32_t add(Node node);
  bool done(std::uint32_t node);
  void check_keys(std::size_t first);
  [[nodiscard]] bool keys_are_fine(std::size_t first) const;

  [[nodiscard]] Position placed(Position at) const {
    if (at.file == 0) at.file = file_;
    return at;
  }

  Problems& problems_;
  const std::uint32_t file_;
  Document document_{};
  std::vector<Open> open_{};
  std::vector<std::uint32_t> pending_{};  // Children of all that is open, the innermost last.
  std::map<std::string, std::uint32_t, std::less<>> anchors_{};
  bool has_root_ = false;
};

// Reads it as JSON, if it is one JSON object.
std::optional<Document> read_json_document(std::string_view text, Problems& problems, std::uint32_t file);

}  // namespace rota::workflow
