// A YAML or JSON file as a tree with places: what the readers of this room look at.
//
// One document of mappings with unique scalar keys, lists and scalars. Aliases are shared, not copied, and count in
// full: the tree has at most kMostNodes nodes and kMostDepth levels as if each had been written out, so that a walk
// over it is bounded by the same figures. No tags. Text is UTF-8 (libyaml also takes UTF-16 and gives us UTF-8).
//
// A file that is one JSON object is read as JSON, which YAML's reader does not know to the last escape.
//
// Thread safety: as of any value; reading from several threads is fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workflow/problems.h"

namespace rota::workflow {

inline constexpr std::size_t kMostBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMostNodes = 4'000'000;
inline constexpr std::size_t kMostDepth = 32;

struct Node {
  enum class Kind : std::uint8_t { kScalar, kList, kMap };
  Kind kind = Kind::kScalar;
  bool plain = false;       // A scalar without quotes, which may be a number, a truth value or null.
  std::uint8_t depth = 1;   // Levels in it, itself included.
  std::uint32_t first = 0;  // Of its text, or of its children: items, or keys and values in turn.
  std::uint32_t count = 0;
  std::uint32_t weight = 1;  // Nodes in it, itself included, aliases written out.
  Position at{};
};

class Document {
 public:
  // Nothing if it is no document that could be looked at; then there is at least one problem. There may be problems
  // with a document, too: a key that is there twice is not in it twice.
  // `file`: the number of the file in the positions.
  static std::optional<Document> read(std::string_view text, Problems& problems, std::uint32_t file = 0);

  [[nodiscard]] const Node& root() const { return nodes_[root_]; }
  // REQUIRES: a scalar.
  [[nodiscard]] std::string_view text(const Node& scalar) const {
    return std::string_view(text_).substr(scalar.first, scalar.count);
  }
  // Items of a list, or entries of a mapping.
  [[nodiscard]] static std::size_t size(const Node& node) {
    return node.kind == Node::Kind::kMap ? node.count / 2 : node.kind == Node::Kind::kList ? node.count : 0;
  }
  [[nodiscard]] const Node& item(const Node& list, std::size_t i) const { return child(list, i); }
  [[nodiscard]] const Node& key(const Node& map, std::size_t i) const { return child(map, 2 * i); }
  [[nodiscard]] const Node& value(const Node& map, std::size_t i) const { return child(map, 2 * i + 1); }
  // Null if the mapping has no such key.
  [[nodiscard]] const Node* find(const Node& map, std::string_view key) const;
  // A plain scalar that says that there is nothing: empty, ~ or null.
  [[nodiscard]] bool is_null(const Node& node) const;

 private:
  friend class DocumentBuilder;
  [[nodiscard]] const Node& child(const Node& node, std::size_t i) const { return nodes_[children_[node.first + i]]; }

  std::vector<Node> nodes_{};
  std::vector<std::uint32_t> children_{};
  std::string text_{};
  std::uint32_t root_ = 0;
};

}  // namespace rota::workflow
