// Assertions that stay on in release builds.
//
//   ROTA_ASSERT(used <= limit, "used=", used, " limit=", limit);   checked in every build
//   ROTA_DASSERT(slot.owner == self);                              only in debug builds (no NDEBUG, or ROTA_DASSERTS)
//   ROTA_PANIC("unknown state ", state);                           for code that only a bug can reach
//
// Assertions are for conditions that only a bug can violate; errors that input, disk, network or a peer can cause are
// Results. A failure writes one message (expression, text and values, file:line, function) to stderr, runs the hook if
// one is set, and aborts. The text is built only on failure and without allocating, so it works on a small fiber stack
// and when memory is exhausted. The call site costs one test and a branch to cold code.
//
// Thread safety: every function may be called from any thread. If several threads fail at once, the first one reports
// and the others wait for the abort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

namespace rota {

// Describes a failed assertion; valid only during the hook.
struct AssertInfo {
  std::string_view expression;  // Empty for ROTA_PANIC.
  std::string_view file;
  int line;
  std::string_view function;
  std::string_view text;     // The given pieces, joined.
  std::string_view message;  // The line written to stderr, without the newline.
};

// Runs after the message was written and before abort(). It may print more state. It may throw (tests do), and then the
// process continues. It must not assert: a failure inside the hook aborts at once.
using AssertHook = void (*)(const AssertInfo& info);

// Sets the hook (null for none) and returns the previous one.
AssertHook set_assert_hook(AssertHook hook) noexcept;

namespace detail {

// One piece of an assertion's text. Holds a copy of a number or a view of a string; never allocates.
class AssertPiece {
 public:
  enum class Kind : std::uint8_t { kText, kSigned, kUnsigned, kBool, kChar, kFloat, kPointer };

  AssertPiece(std::string_view text) noexcept : kind_(Kind::kText), text_(text) {}  // NOLINT(*-explicit-*)
  AssertPiece(const char* text) noexcept                                            // NOLINT(*-explicit-*)
      : kind_(Kind::kText), text_(text == nullptr ? std::string_view("(null)") : std::string_view(text)) {}
  AssertPiece(bool value) noexcept : kind_(Kind::kBool), unsigned_(value ? 1U : 0U) {}  // NOLINT(*-explicit-*)
  AssertPiece(char value) noexcept : kind_(Kind::kChar), char_(value) {}                // NOLINT(*-explicit-*)
  AssertPiece(std::nullptr_t) noexcept : kind_(Kind::kPointer), pointer_(nullptr) {}    // NOLINT(*-explicit-*)

  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
  AssertPiece(T value) noexcept {  // NOLINT(*-explicit-*)
    if constexpr (std::is_signed_v<T>) {
      kind_ = Kind::kSigned;
      signed_ = static_cast<std::int64_t>(value);
    } else {
      kind_ = Kind::kUnsigned;
      unsigned_ = static_cast<std::uint64_t>(value);
    }
  }
  template <class T>
    requires std::is_enum_v<T>
  AssertPiece(T value) noexcept : AssertPiece(static_cast<std::underlying_type_t<T>>(value)) {}  // NOLINT
  template <class T>
    requires std::is_floating_point_v<T>
  AssertPiece(T value) noexcept : kind_(Kind::kFloat), float_(static_cast<double>(value)) {}  // NOLINT
  template <class T>
    requires(!std::is_same_v<std::remove_cv_t<T>, char>)
  AssertPiece(T* value) noexcept  // NOLINT(*-explicit-*)
      : kind_(Kind::kPointer), pointer_(reinterpret_cast<const volatile void*>(value)) {}
  // std::string, rota::Error messages, and other types that convert to std::string_view.
  template <class T>
    requires(std::is_class_v<T> && std::is_convertible_v<const T&, std::string_view> &&
             !std::is_same_v<T, std::string_view>)
  AssertPiece(const T& value) noexcept : AssertPiece(static_cast<std::string_view>(value)) {}  // NOLINT
  // Strong ids and other types with a value() of an integral type.
  template <class T>
    requires(std::is_class_v<T> && !std::is_convertible_v<const T&, std::string_view> &&
             requires(const T& t) { requires std::is_integral_v<std::remove_cvref_t<decltype(t.value())>>; })
  AssertPiece(const T& value) noexcept : AssertPiece(value.value()) {}  // NOLINT(*-explicit-*)

  // Writes the piece to `out` (at most `capacity` bytes) and returns the number of bytes written.
  std::size_t print(char* out, std::size_t capacity) const noexcept;

 private:
  Kind kind_ = Kind::kText;
  union {
    std::string_view text_;
    std::int64_t signed_;
    std::uint64_t unsigned_;
    char char_;
    double float_;
    const volatile void* pointer_;
  };
};

// Sets a function that flushes the log before the message of a failure is written. Only the log uses it.
void set_assert_flush(void (*flush)() noexcept) noexcept;

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void assert_failed(const char* expression, const char* file, int line,
                                                                const char* function,
                                                                std::initializer_list<AssertPiece> pieces);

}  // namespace detail
}  // namespace rota

// Checked in every build. An expression of type void; the pieces are evaluated only on failure.
#define ROTA_ASSERT(condition, ...)          \
  (static_cast<bool>(condition) /* NOLINT */ \
       ? static_cast<void>(0)                \
       : ::rota::detail::assert_failed(#condition, __FILE__, __LINE__, __func__, {__VA_ARGS__}))

// For code that only a bug can reach.
#define ROTA_PANIC(...) ::rota::detail::assert_failed(nullptr, __FILE__, __LINE__, __func__, {__VA_ARGS__})

// For the hottest paths only. In release builds it is compiled, so that it stays valid, but never evaluated.
#if !defined(NDEBUG) || defined(ROTA_DASSERTS)
#define ROTA_DASSERT(...) ROTA_ASSERT(__VA_ARGS__)
#define ROTA_DASSERTS_ENABLED 1
#else
#define ROTA_DASSERT(...) (true ? static_cast<void>(0) : ROTA_ASSERT(__VA_ARGS__))
#define ROTA_DASSERTS_ENABLED 0
#endif
