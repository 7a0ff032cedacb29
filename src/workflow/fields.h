// Taking typed values out of a mapping, strictly.
//
//   Fields stage(reading, node, keys().stage);       // reports every key that a stage does not have
//   stage.duration_ms("timeout", template.timeout_ms);
//
// A getter returns whether the key is there with a right value, which is then in `out`; otherwise `out` is untouched,
// and what is wrong is reported with its place: what was found, and what is allowed.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/result.h"
#include "workflow/document.h"
#include "workflow/keys.h"

namespace rota::workflow {

// What the brain takes at most.
inline constexpr std::int64_t kMostSize = std::int64_t{1} << 50;              // 1PiB
inline constexpr std::int64_t kMostMillis = 1'000LL * 3600 * 24 * 365 * 100;  // A hundred years.

// What every reader needs.
struct Reading {
  const Document& document;
  Problems& problems;

  void wrong(const Node& node, std::string message) const { problems.add(node.at, std::move(message)); }
  [[nodiscard]] std::string_view text(const Node& node) const { return document.text(node); }
  // "a list", "a mapping", "nothing", or the text in quotes: as in "timeout is 'soon'".
  [[nodiscard]] std::string found(const Node& node) const;
};

class Fields {
 public:
  Fields(Reading& reading, const Node& node, const KeySet& keys);

  [[nodiscard]] const Node& node() const { return node_; }
  // Null if the key is not there, or has no value, which is reported.
  [[nodiscard]] const Node* find(std::string_view key) const;

  bool text(std::string_view key, std::string& out, std::size_t most_bytes = 256) const;
  bool integer(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t& out) const;
  bool boolean(std::string_view key, bool& out) const;
  // Rounded up to milliseconds.
  bool duration_ms(std::string_view key, std::int64_t& out, std::int64_t most_ms = kMostMillis) const;
  bool bytes(std::string_view key, std::int64_t& out) const;
  // A decimal with at most `digits` after the point, in units of the last of them: 1.5 with 3 is 1500.
  bool decimal(std::string_view key, int digits, std::int64_t least, std::int64_t most, std::int64_t& out) const;
  // Cores in thousandths: 2, 0.5 or 500m.
  bool cpu_millis(std::string_view key, std::int64_t& out) const;
  // A list of texts, or one text alone.
  bool texts(std::string_view key, std::vector<std::string>& out) const;
  // A mapping of names to texts, as it is written.
  bool pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& out) const;
  // A mapping with keys of its own.
  [[nodiscard]] const Node* map(std::string_view key) const;

 private:
  void wrong(std::string_view key, const Node& node, std::string_view must_be) const;

  Reading& reading_;
  const Node& node_;
};

// "unknown key 'tiemout' in a stage; did you mean 'timeout'? Allowed: ...".
[[nodiscard]] std::string unknown(std::string_view found, std::string_view what, const std::vector<std::string>& names);
// "; did you mean 'x'?" or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view found, const std::vector<std::string>& names);
// A decimal of at most `digits` after the point; nothing if it is none or too large.
[[nodiscard]] std::optional<std::int64_t> parse_decimal(std::string_view text, int digits);

}  // namespace rota::workflow
