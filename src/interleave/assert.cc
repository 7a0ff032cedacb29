// ROTA_ASSERT under the checker: instead of ending the process, a failed assertion of the checked code fails the
// execution, with its trace. Takes the place of base/assert.cc, which checked programs do not link.
#include "rota/assert.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "interleave/engine.h"

namespace rota {

AssertHook set_assert_hook(AssertHook) noexcept { return nullptr; }

namespace detail {

std::size_t AssertPiece::print(char* out, std::size_t capacity) const noexcept {
  std::string text;
  switch (kind_) {
    case Kind::kText:
      text = text_;
      break;
    case Kind::kSigned:
      text = std::to_string(signed_);
      break;
    case Kind::kUnsigned:
      text = std::to_string(unsigned_);
      break;
    case Kind::kBool:
      text = unsigned_ != 0 ? "true" : "false";
      break;
    case Kind::kChar:
      text = std::string(1, char_);
      break;
    case Kind::kFloat:
      text = std::to_string(float_);
      break;
    case Kind::kPointer:
      text = interleave::format_value({reinterpret_cast<std::uintptr_t>(pointer_), 0}, sizeof(void*));
      break;
  }
  const std::size_t count = std::min(text.size(), capacity);
  std::memcpy(out, text.data(), count);
  return count;
}

void assert_failed(const char* expression, const char* file, int line, const char* function,
                   std::initializer_list<AssertPiece> pieces) {
  std::string text = expression == nullptr ? "panic" : std::string("assertion failed: ") + expression;
  for (const AssertPiece& piece : pieces) {
    char buffer[256];
    if (&piece == pieces.begin()) text += " | ";
    text.append(buffer, piece.print(buffer, sizeof buffer));
  }
  const std::string path = file;
  text += " (" + path.substr(path.rfind('/') + 1) + ":" + std::to_string(line) + ", " + function + ")";
  if (interleave::Engine::inside()) {
    interleave::Engine::current().fail(interleave::Failure::kAssertion, text);
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
}

}  // namespace detail
}  // namespace rota
