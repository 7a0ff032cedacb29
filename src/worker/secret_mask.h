// Replaces the values of secrets in what a task writes by "***" (U-7).
//
// A value is found as it is; as each of its lines, if it has several; and as JSON, percent-encoded or base64 text, in
// which programs often print values. Lines with fewer than 4 bytes are not looked for on their own, and for values with
// more than 1 KiB base64 and percent-encoding are not. This protects against accidents: a task that has a secret can
// always write it in a form that no one can recognise.
//
//   SecretMask mask({"hunter22"});                   // once per attempt
//   StreamMask out(mask);                            // once per stream
//   out.feed("hunt", sink); out.feed("er22!", sink); // sink gets "***!"
//   out.finish(sink);
//
// The search is an automaton of Aho and Corasick: one step per byte, whatever the number of values. A stream holds back
// only the bytes that may be the beginning of a value, so a value is found however the writes divide it.
//
// Thread safety: a SecretMask does not change; a StreamMask belongs to one task.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rota::worker {

inline constexpr std::string_view kMasked = "***";

class SecretMask {
 public:
  SecretMask() = default;
  explicit SecretMask(const std::vector<std::string>& values);

  [[nodiscard]] bool empty() const { return nodes_.empty(); }
  // A whole text, masked.
  [[nodiscard]] std::string masked(std::string_view text) const;
  // Masked JSON, however its strings are escaped; a masked number becomes a string. If it is not JSON any more, because
  // a value has brackets or commas itself, then a JSON string of all of it. REQUIRES: it is JSON.
  [[nodiscard]] std::string masked_json(std::string_view json) const;

 private:
  friend class StreamMask;
  // A prefix of at least one pattern; node 0 is the empty one.
  struct Node {
    std::uint32_t child = 0;    // The first child; 0: none.
    std::uint32_t sibling = 0;  // The next child of the same parent; 0: none.
    std::uint32_t suffix = 0;   // The node of its longest proper suffix that is a prefix of a pattern.
    std::uint32_t depth = 0;    // Its length.
    std::uint32_t match = 0;    // The length of the longest pattern that ends here; 0: none.
    unsigned char byte = 0;
  };
  void add(std::string_view pattern);
  void link_suffixes();
  [[nodiscard]] std::uint32_t child(std::uint32_t node, unsigned char byte) const;
  [[nodiscard]] std::uint32_t step(std::uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> first_{};  // The children of node 0, by byte.
};

class StreamMask {
 public:
  using Sink = std::function<void(std::string_view)>;

  // REQUIRES: `mask` outlives it.
  explicit StreamMask(const SecretMask& mask) : mask_(mask) {}
  // Passes on what can be passed on. Without values everything is, at once and uncopied.
  void feed(std::string_view bytes, const Sink& sink);
  // The stream has ended: passes on what was held back.
  void finish(const Sink& sink);

 private:
  // Moves the first bytes of held_ to `out`.
  void release(std::size_t count, std::string& out);

  const SecretMask& mask_;
  std::uint32_t state_ = 0;
  std::string held_{};            // Read and not passed on: the prefix of a pattern that state_ stands for.
  std::vector<bool> in_value_{};  // For each byte of held_: it belongs to a value.
  bool masking_ = false;          // The last byte that was passed on belonged to a value.
};

}  // namespace rota::worker
