// Result<T>: a value, or an Error with a stable code, a sentence for people, and details.
//
//   Result<Config> load(const std::string& path) {
//     ROTA_TRY_ASSIGN(std::string text, read_file(path));        // returns the error if there is one
//     ROTA_TRY(check(text));
//     if (text.empty()) return Error{ErrorCode::kParseError, path + " is empty"};
//     if (busy) return ErrorCode::kWouldBlock;                   // no allocation: the table has the sentence
//     return Config{text};
//   }
//
// Cost: a Result<void> is one word, null on success. A Result<T> is a T and that word. An error made from a bare
// ErrorCode is stored in the word itself; an error with a message is a heap object that is moved as a pointer.
//
// Misuse is a bug and aborts in every build (assert.h): value() of an error, error() of a value, any use of a
// moved-from error, an Error with code Ok.
//
// Thread safety: distinct objects are independent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rota/assert.h"
#include "rota/error_code.h"

namespace rota {

// A fact for programs, beside the sentence: {"setting", "fiber.workers"}.
struct ErrorDetail {
  std::string key;
  std::string value;
  bool operator==(const ErrorDetail&) const = default;
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message{};
  std::vector<ErrorDetail> details{};

  // Adds a detail: `return Error{...}.with("path", path);`
  Error&& with(std::string key, std::string value) && {
    details.push_back({std::move(key), std::move(value)});
    return std::move(*this);
  }
  // Prefixes the sentence with the context: "reading a.yaml: no such file".
  Error&& in(std::string_view where) && {
    message.insert(0, ": ").insert(0, where);
    return std::move(*this);
  }
  // The value of the first detail with this key, or null.
  [[nodiscard]] const std::string* detail(std::string_view key) const {
    for (const ErrorDetail& d : details) {
      if (d.key == key) return &d.value;
    }
    return nullptr;
  }
  // "NotFound: no such task (task=7)".
  [[nodiscard]] std::string to_string() const;

  bool operator==(const Error&) const = default;
};

namespace detail {

// The Error that represents a bare code: its message is the table's meaning. It lives forever.
const Error& bare_error(ErrorCode code) noexcept;

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void value_of_error(const Error& error);
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void result_misuse(const char* what);

// One word: 0 is success; odd is a bare code (code << 1 | 1) or moved-from; otherwise an owned Error*.
class ErrorWord {
 public:
  ErrorWord() noexcept = default;
  explicit ErrorWord(ErrorCode code) noexcept : word_((static_cast<std::uintptr_t>(code) << 1) | 1U) {
    if (code == ErrorCode::kOk) [[unlikely]]
      result_misuse("an error was made from ErrorCode::kOk");
  }
  explicit ErrorWord(Error&& error) : word_(own(new Error(std::move(error)))) {}
  explicit ErrorWord(const Error& error) : word_(own(new Error(error))) {}
  ErrorWord(ErrorWord&& other) noexcept : word_(other.word_) {
    if (other.word_ != 0) other.word_ = kMovedFrom;
  }
  ErrorWord(const ErrorWord& other) : word_(other.owns() ? own(new Error(*other.pointer())) : other.word_) {}
  ErrorWord& operator=(ErrorWord&& other) noexcept {
    ErrorWord(std::move(other)).swap(*this);
    return *this;
  }
  ErrorWord& operator=(const ErrorWord& other) {
    ErrorWord(other).swap(*this);
    return *this;
  }
  ~ErrorWord() {
    if (word_ != 0) [[unlikely]]
      drop();
  }

  void swap(ErrorWord& other) noexcept { std::swap(word_, other.word_); }
  [[nodiscard]] bool ok() const noexcept { return word_ == 0; }
  // REQUIRES: !ok(), not moved from.
  [[nodiscard]] const Error& get() const noexcept {
    if (word_ == kMovedFrom) [[unlikely]]
      result_misuse("a moved-from error was used");
    return owns() ? *pointer() : bare_error(bare());
  }
  [[nodiscard]] Error take() && {
    Error error = owns() ? std::move(*pointer()) : get();
    ErrorWord moved(std::move(*this));
    return error;
  }
  [[nodiscard]] ErrorCode code() const noexcept {
    if (word_ == 0) return ErrorCode::kOk;
    return (word_ & 1U) != 0 && word_ != kMovedFrom ? bare() : get().code;
  }

 private:
  static constexpr std::uintptr_t kMovedFrom = ~std::uintptr_t{0};

  static std::uintptr_t own(Error* error) noexcept {
    if (error->code == ErrorCode::kOk) [[unlikely]]
      result_misuse("an Error has the code ErrorCode::kOk");
    return reinterpret_cast<std::uintptr_t>(error);
  }
  [[nodiscard]] bool owns() const noexcept { return word_ != 0 && (word_ & 1U) == 0; }
  [[nodiscard]] Error* pointer() const noexcept { return reinterpret_cast<Error*>(word_); }
  [[nodiscard]] ErrorCode bare() const noexcept { return static_cast<ErrorCode>(word_ >> 1); }
  [[gnu::cold]] [[gnu::noinline]] void drop() noexcept {
    if (owns()) delete pointer();
  }

  std::uintptr_t word_ = 0;
};

// Returned by ROTA_TRY: an error on its way to a Result of another type.
struct Failure {
  ErrorWord word;
};

}  // namespace detail

template <class T>
class Result;

namespace detail {
template <class U>
inline constexpr bool kIsErrorLike =
    std::is_same_v<U, Error> || std::is_same_v<U, ErrorCode> || std::is_same_v<U, Failure>;
template <class U>
inline constexpr bool kIsResult = false;
template <class U>
inline constexpr bool kIsResult<Result<U>> = true;
}  // namespace detail

template <class T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T>, "a Result holds no references; use a pointer");
  static_assert(!detail::kIsErrorLike<std::remove_cv_t<T>>, "a Result's value may not be an error");

 public:
  using value_type = T;

  // From a value, or from anything that converts to one.
  template <class U = T>
    requires(!detail::kIsErrorLike<std::remove_cvref_t<U>> && !detail::kIsResult<std::remove_cvref_t<U>> &&
             std::is_constructible_v<T, U &&>)
  explicit(!std::is_convertible_v<U&&, T>) Result(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT

  Result(Error error) : word_(std::move(error)) {}                    // NOLINT(*-explicit-*)
  Result(ErrorCode code) noexcept : word_(code) {}                    // NOLINT(*-explicit-*)
  Result(detail::Failure&& f) noexcept : word_(std::move(f.word)) {}  // NOLINT(*-explicit-*)

  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : word_(std::move(other.word_)) {
    if (word_.ok()) std::construct_at(std::addressof(value_), std::move(other.value_));
  }
  Result(const Result& other)
    requires std::is_copy_constructible_v<T>
      : word_(other.word_) {
    if (word_.ok()) std::construct_at(std::addressof(value_), other.value_);
  }
  Result& operator=(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T> &&
                                             std::is_nothrow_move_assignable_v<T>) {
    assign(std::move(other));
    return *this;
  }
  Result& operator=(const Result& other)
    requires std::is_copy_constructible_v<T>
  {
    assign(other);
    return *this;
  }
  ~Result() {
    if (word_.ok()) std::destroy_at(std::addressof(value_));
  }

  [[nodiscard]] bool ok() const noexcept { return word_.ok(); }
  [[nodiscard]] bool has_value() const noexcept { return word_.ok(); }
  explicit operator bool() const noexcept { return word_.ok(); }

  // REQUIRES: ok().
  [[nodiscard]] T& value() & { return require_value(), value_; }
  [[nodiscard]] const T& value() const& { return require_value(), value_; }
  [[nodiscard]] T&& value() && { return require_value(), std::move(value_); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return std::addressof(value()); }
  [[nodiscard]] const T* operator->() const { return std::addressof(value()); }
  template <class U>
  [[nodiscard]] T value_or(U&& other) const& {
    return ok() ? value_ : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return ok() ? std::move(value_) : static_cast<T>(std::forward<U>(other));
  }

  // REQUIRES: !ok().
  [[nodiscard]] const Error& error() const {
    require_error();
    return word_.get();
  }
  [[nodiscard]] Error take_error() && {
    require_error();
    return std::move(word_).take();
  }
  // The error's code, or kOk.
  [[nodiscard]] ErrorCode code() const { return word_.code(); }
  // For ROTA_TRY. REQUIRES: !ok().
  [[nodiscard]] detail::Failure take_failure() && {
    require_error();
    return {std::move(word_)};
  }

 private:
  void require_value() const {
    if (!word_.ok()) [[unlikely]]
      detail::value_of_error(word_.get());
  }
  void require_error() const {
    if (word_.ok()) [[unlikely]]
      detail::result_misuse("error() of a Result that has a value");
  }
  // If constructing or assigning T throws, this keeps its previous value, or T's half-assigned one.
  template <class Other>
  void assign(Other&& other) {
    if (this == std::addressof(other)) return;
    if (word_.ok() && other.word_.ok()) {
      value_ = std::forward<Other>(other).value_;
    } else if (other.word_.ok()) {
      std::construct_at(std::addressof(value_), std::forward<Other>(other).value_);
      word_ = detail::ErrorWord();
    } else {
      detail::ErrorWord word(std::forward<Other>(other).word_);
      if (word_.ok()) std::destroy_at(std::addressof(value_));
      word_ = std::move(word);
    }
  }

  detail::ErrorWord word_;
  union {
    T value_;  // Alive if and only if word_.ok().
  };
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() noexcept = default;
  Result(Error error) : word_(std::move(error)) {}                    // NOLINT(*-explicit-*)
  Result(ErrorCode code) noexcept : word_(code) {}                    // NOLINT(*-explicit-*)
  Result(detail::Failure&& f) noexcept : word_(std::move(f.word)) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] bool ok() const noexcept { return word_.ok(); }
  [[nodiscard]] bool has_value() const noexcept { return word_.ok(); }
  explicit operator bool() const noexcept { return word_.ok(); }

  // REQUIRES: ok().
  void value() const {
    if (!word_.ok()) [[unlikely]]
      detail::value_of_error(word_.get());
  }
  // REQUIRES: !ok().
  [[nodiscard]] const Error& error() const {
    require_error();
    return word_.get();
  }
  [[nodiscard]] Error take_error() && {
    require_error();
    return std::move(word_).take();
  }
  [[nodiscard]] ErrorCode code() const { return word_.code(); }
  [[nodiscard]] detail::Failure take_failure() && {
    require_error();
    return {std::move(word_)};
  }

 private:
  void require_error() const {
    if (word_.ok()) [[unlikely]]
      detail::result_misuse("error() of a Result that is ok");
  }
  detail::ErrorWord word_;
};

static_assert(sizeof(Result<void>) == sizeof(void*));
static_assert(sizeof(Result<void*>) == 2 * sizeof(void*));

}  // namespace rota

#define ROTA_DETAIL_CONCAT2(a, b) a##b
#define ROTA_DETAIL_CONCAT(a, b) ROTA_DETAIL_CONCAT2(a, b)

// Evaluates an expression of type Result<...>; on an error, returns it from the enclosing function. A value is
// discarded.
#define ROTA_TRY(...) ROTA_DETAIL_TRY(ROTA_DETAIL_CONCAT(rota_try_, __COUNTER__), (__VA_ARGS__))
#define ROTA_DETAIL_TRY(name, expression)    \
  do {                                       \
    auto&& name = expression;                \
    if (!name.ok()) [[unlikely]]             \
      return std::move(name).take_failure(); \
  } while (false)

// The same, and assigns the value to `target`: a declaration (`const auto x`) or an existing variable. It expands to
// several statements: use it on a line of its own inside braces.
#define ROTA_TRY_ASSIGN(target, ...) \
  ROTA_DETAIL_TRY_ASSIGN(ROTA_DETAIL_CONCAT(rota_try_, __COUNTER__), target, (__VA_ARGS__))
#define ROTA_DETAIL_TRY_ASSIGN(name, target, expression) \
  auto name = expression;                                \
  if (!name.ok()) [[unlikely]]                           \
    return std::move(name).take_failure();               \
  target = std::move(name).value()
