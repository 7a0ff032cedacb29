// The failure path of ROTA_ASSERT: one message, the hook, abort.
//
// Nothing here allocates or takes a lock (the log's flush only tries one). The message is built in a static buffer,
// because a fiber's stack may be 8 KiB and nearly used up; `g_reporting` ensures that one thread at a time uses it. The
// atomics are std::atomic, not base/sync.h's, because the shim and the interleaving checker assert, too.
#include "rota/assert.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace rota {
namespace {

std::atomic<AssertHook> g_hook{nullptr};
std::atomic<void (*)() noexcept> g_flush{nullptr};

// Held by the thread that is reporting. The acquire when it is taken pairs with the release when it is given back,
// which happens only if a hook throws.
std::atomic_flag g_reporting = ATOMIC_FLAG_INIT;
thread_local bool t_reporting = false;

constexpr std::size_t kMessageCapacity = 4096;
constexpr std::size_t kTextCapacity = 2048;
char g_message[kMessageCapacity];
char g_text[kTextCapacity];

// Appends to a fixed buffer; text that does not fit is cut.
class Buffer {
 public:
  Buffer(char* data, std::size_t capacity) noexcept : data_(data), capacity_(capacity) {}

  void add(std::string_view text) noexcept {
    const std::size_t count = std::min(text.size(), capacity_ - size_);
    std::memcpy(data_ + size_, text.data(), count);
    size_ += count;
  }
  void add(const detail::AssertPiece& piece) noexcept { size_ += piece.print(data_ + size_, capacity_ - size_); }
  [[nodiscard]] std::string_view view() const noexcept { return {data_, size_}; }

 private:
  char* data_;
  std::size_t capacity_;
  std::size_t size_ = 0;
};

void write_stderr(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string_view or_empty(const char* text) noexcept { return text == nullptr ? std::string_view() : text; }

// Releases g_reporting if a hook throws.
struct ReportingScope {
  ReportingScope() noexcept {
    // Almost always the process ends while this thread waits; if a hook throws, this thread continues.
    while (g_reporting.test_and_set(std::memory_order_acquire)) ::usleep(1000);
    t_reporting = true;
  }
  ReportingScope(const ReportingScope&) = delete;
  ReportingScope& operator=(const ReportingScope&) = delete;
  ~ReportingScope() {
    t_reporting = false;
    g_reporting.clear(std::memory_order_release);
  }
};

}  // namespace

AssertHook set_assert_hook(AssertHook hook) noexcept { return g_hook.exchange(hook); }

namespace detail {

void set_assert_flush(void (*flush)() noexcept) noexcept { g_flush.store(flush); }

std::size_t AssertPiece::print(char* out, std::size_t capacity) const noexcept {
  char digits[64];
  std::string_view text;
  const auto number = [&](auto... arguments) {
    const auto result = std::to_chars(digits, digits + sizeof digits, arguments...);
    return std::string_view(digits, static_cast<std::size_t>(result.ptr - digits));
  };
  switch (kind_) {
    case Kind::kText:
      text = text_;
      break;
    case Kind::kSigned:
      text = number(signed_);
      break;
    case Kind::kUnsigned:
      text = number(unsigned_);
      break;
    case Kind::kBool:
      text = unsigned_ != 0 ? "true" : "false";
      break;
    case Kind::kChar:
      text = {&char_, 1};
      break;
    case Kind::kFloat:
      text = number(float_);
      break;
    case Kind::kPointer: {
      digits[0] = '0';
      digits[1] = 'x';
      const auto result =
          std::to_chars(digits + 2, digits + sizeof digits, reinterpret_cast<std::uintptr_t>(pointer_), 16);
      text = {digits, static_cast<std::size_t>(result.ptr - digits)};
      break;
    }
  }
  const std::size_t count = std::min(text.size(), capacity);
  std::memcpy(out, text.data(), count);
  return count;
}

void assert_failed(const char* expression, const char* file, int line, const char* function,
                   std::initializer_list<AssertPiece> pieces) {
  if (t_reporting) {
    write_stderr("rota: assertion failed inside the assertion hook\n");
    std::abort();
  }
  const ReportingScope scope;
  if (auto* const flush = g_flush.load(); flush != nullptr) flush();

  Buffer text(g_text, sizeof g_text);
  for (const AssertPiece& piece : pieces) text.add(piece);

  Buffer message(g_message, sizeof g_message - 1);
  message.add(std::string_view(file));
  message.add(std::string_view(":"));
  message.add(AssertPiece(line));
  message.add(std::string_view(": "));
  if (expression != nullptr) {
    message.add(std::string_view("assertion failed: "));
    message.add(std::string_view(expression));
  } else {
    message.add(std::string_view("panic"));
  }
  if (!text.view().empty()) {
    message.add(std::string_view(expression != nullptr ? " | " : ": "));
    message.add(text.view());
  }
  message.add(std::string_view(" (in "));
  message.add(std::string_view(function));
  message.add(std::string_view(")"));

  const std::size_t size = message.view().size();
  g_message[size] = '\n';
  write_stderr({g_message, size + 1});
  if (AssertHook hook = g_hook.load(); hook != nullptr) {
    hook(AssertInfo{or_empty(expression), file, line, function, text.view(), {g_message, size}});
  }
  std::abort();
}

}  // namespace detail
}  // namespace rota
