#include "cli/each_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace rota::cli {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }
// A comment may begin after it.
bool ends_command(char c) { return c == '\n' || c == ';' || c == '&' || c == '|' || c == '('; }

// The length of the mark of a value at the beginning of the text; 0: there is none.
std::size_t mark_length(std::string_view text, std::size_t lists) {
  if (text.starts_with("{}")) return 2;
  for (std::size_t i = 1; i <= lists && text.starts_with('{'); ++i) {
    if (const std::string mark = "{" + std::to_string(i) + "}"; text.starts_with(mark)) return mark.size();
  }
  return 0;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Whether the next word of a command is a program for an interpreter: `bash -c`, `perl -e`.
bool takes_code(const std::vector<std::string>& words) {
  static constexpr std::array<std::string_view, 11> kShells{"sh",   "bash", "dash",   "ash",     "zsh",    "ksh",
                                                            "fish", "su",   "python", "python3", "python2"};
  static constexpr std::array<std::string_view, 3> kOthers{"perl", "ruby", "node"};
  if (words.empty()) return false;
  const std::string& last = words.back();
  const auto runs = [&](const auto& names) {
    return std::any_of(words.begin(), words.end() - 1, [&](const std::string& word) {
      return std::find(names.begin(), names.end(), file_name(word)) != names.end();
    });
  };
  const bool option = last.size() > 1 && last[0] == '-' && last[1] != '-';
  return option && ((last.back() == 'c' && runs(kShells)) || (last.back() == 'e' && runs(kOthers)));
}

enum class ShellState : std::uint8_t { kCommand, kSubshell, kDouble, kSingle, kBackquote, kBraces, kArithmetic };
// Quotes or brackets.
struct ShellLevel {
  ShellState state = ShellState::kCommand;
  std::size_t from = 0;  // Where they were opened.
  bool code = false;     // They contain the code of another program.
};

class ShellText {
  using State = ShellState;
  using Level = ShellLevel;

 public:
  ShellText(std::string_view text, std::size_t lists) : text_(text), lists_(lists) {}

  Result<void> check() {
    while (at_ < text_.size()) {
      if (const std::size_t length = mark_length(text_.substr(at_), lists_); length > 0) {
        ROTA_TRY(mark(length));
      } else {
        step();
      }
    }
    if (lost_.empty() && !comment_ && levels_.back().state != State::kCommand)
      return wrong("", "its quotes or brackets are not closed");
    if (marks_ == 0) {
      return wrong("", "it has {} in a comment only; write {} where the value belongs");
    }
    return {};
  }

 private:
  static Result<void> wrong(const std::string& name, const std::string& why) {
    return Error{ErrorCode::kInvalidArgument,
                 "the command cannot be run" + (name.empty() ? "" : " with " + name + " in this place") + ": " + why};
  }

  // A value at at_.
  Result<void> mark(std::size_t length) {
    const std::string name(text_.substr(at_, length));
    if (comment_) {
      at_ += length;
      return {};
    }
    ++marks_;
    if (at_ > 0 && text_[at_ - 1] == '$') {
      return wrong("$" + name, "write '$'" + name + " for a dollar and the value, and $" + name.substr(1, length - 2) +
                                   " for an argument of the shell");
    }
    if (!lost_.empty()) return wrong(name, lost_);
    switch (levels_.back().state) {
      case State::kBackquote:
        return wrong(name, "inside of `...` quotes are ambiguous; write $(...) instead");
      case State::kBraces:
        return wrong(name, "the value is not a part of a name; write x=" + name + "; and then ${x...}");
      case State::kArithmetic:
        return wrong(name, "inside of $((...)) there are no quotes; write x=" + name + "; and then $((x + 1))");
      case State::kSingle:
      case State::kDouble:
        if (levels_.back().code && !is_whole(length)) {
          return wrong(name,
                       "the value would become code of another program; pass it as an argument, as in: sh -c 'cat "
                       "\"$1\"' sh " +
                           name);
        }
        break;
      default:
        break;
    }
    if (!words_.empty() && words_.front() == "eval") return wrong(name, "eval would make the value code");
    word_ += name;
    in_word_ = true;
    at_ += length;
    return {};
  }

  // The mark at at_ is all that its quotes contain.
  [[nodiscard]] bool is_whole(std::size_t length) const {
    const std::size_t from = levels_.back().from;
    return at_ == from + 1 && at_ + length < text_.size() && text_[at_ + length] == text_[from];
  }

  // The next character.
  void step() {
    const char c = text_[at_];
    const std::string_view rest = text_.substr(at_);
    if (comment_) {
      comment_ = c != '\n';
      ++at_;
      return;
    }
    switch (levels_.back().state) {
      case State::kSingle:
        return quoted(c, '\'');
      case State::kBackquote:
        if (c == '\'' || c == '"' || c == '(' || c == '#')
          lose("the quotes inside of `...` are ambiguous; write $(...)");
        return skip(c, '`');
      case State::kBraces:
        if (c == '\'' || c == '"' || c == '`' || c == '\\' || c == '(' || (c == '#' && is_blank(text_[at_ - 1]))) {
          lose("the quotes inside of ${...} before it are ambiguous");
        }
        return skip(c, '}');
      case State::kArithmetic:
        if (c == '\'' || c == '"') lose("the quotes inside of $((...)) before it are ambiguous");
        return arithmetic(c);
      case State::kDouble:
        if (c == '\\' || expansion(rest)) return c == '\\' ? escape() : void();
        return quoted(c, '"');
      default:
        return command(c, rest);
    }
  }

  void lose(const char* why) {
    if (lost_.empty()) lost_ = why;
  }
  void open(State state, std::size_t length, bool code = false) {
    levels_.push_back({state, at_, code});
    at_ += length;
  }
  void close(std::size_t length) {
    levels_.pop_back();
    at_ += length;
  }
  void escape() {
    if (at_ + 1 < text_.size()) word_ += text_[at_ + 1];
    in_word_ = true;
    at_ = std::min(at_ + 2, text_.size());
  }
  void quoted(char c, char end) {
    if (c == end) return close(1);
    word_ += c;
    ++at_;
  }
  void skip(char c, char end) {
    if (c == end) return close(1);
    at_ += c == '\\' && at_ + 1 < text_.size() ? 2 : 1;
  }
  void arithmetic(char c) {
    if (c == '(') return open(State::kArithmetic, 1);
    if (c == ')') return close(1);
    ++at_;
  }
  // $((...)), $(...), ${...} and `...`; true if one of them begins.
  bool expansion(std::string_view rest) {
    if (rest.starts_with("$((")) {
      open(State::kArithmetic, 2);
      open(State::kArithmetic, 1);
    } else if (rest.starts_with("$(")) {
      open(State::kSubshell, 2);
      end_command();
      return true;
    } else if (rest.starts_with("${") && mark_length(rest.substr(1), lists_) == 0) {
      open(State::kBraces, 2);
    } else if (rest.starts_with('`')) {
      open(State::kBackquote, 1);
    } else {
      return false;
    }
    in_word_ = true;
    return true;
  }

  // Outside of quotes.
  void command(char c, std::string_view rest) {
    if (c == '\\') return escape();
    if (rest.starts_with("$'")) lose("$'...' before it means something else in each shell; write '...'");
    if (expansion(rest)) return;
    if (c == '\'' || c == '"') {
      const bool code = !in_word_ && takes_code(words_);
      in_word_ = true;
      return open(c == '"' ? State::kDouble : State::kSingle, 1, code);
    }
    if (rest.starts_with("<<")) lose("it has a here-document before it; use printf '%s\\n' {} | ... instead");
    if (c == '#' && !in_word_) {
      // `replaced()` knows comments after these characters only.
      if (at_ > 0 && !is_blank(text_[at_ - 1]) && text_[at_ - 1] != '\n' && text_[at_ - 1] != ';' &&
          text_[at_ - 1] != '(') {
        lose("there is a comment before it that is not after a space");
      }
      comment_ = true;
      ++at_;
      return;
    }
    if (is_blank(c) || ends_command(c) || c == ')') {
      end_word();
      if (!is_blank(c)) end_command();
      if (c == '(') return open(State::kSubshell, 1);
      if (c == ')' && levels_.back().state == State::kSubshell) return close(1);
    } else {
      word_ += c;
      in_word_ = true;
    }
    ++at_;
  }
  void end_word() {
    if (word_ == "case" && levels_.size() > 1) lose("the brackets of `case` inside of $(...) before it are ambiguous");
    if (in_word_) words_.push_back(word_);
    word_.clear();
    in_word_ = false;
  }
  void end_command() {
    word_.clear();
    words_.clear();
    in_word_ = false;
  }

  const std::string_view text_;
  const std::size_t lists_;
  std::size_t at_ = 0;
  std::vector<Level> levels_{Level{}};  // From the outermost to that of at_.
  std::vector<std::string> words_;      // Of the command that at_ is in.
  std::string word_;                    // The word that at_ is in.
  bool in_word_ = false;
  bool comment_ = false;
  std::size_t marks_ = 0;  // Outside of comments.
  std::string lost_;       // Why it is not known how the rest is quoted; empty: it is known.
};

}  // namespace

Result<void> check_shell_text(const std::string& text, std::size_t lists) {
  bool any = false;
  for (std::size_t at = 0; at < text.size() && !any; ++at) {
    any = mark_length(std::string_view(text).substr(at), lists) > 0;
  }
  if (any) return ShellText(text, lists).check();
  const std::size_t last = text.find_last_not_of(" \t");
  if (last == std::string::npos || ends_command(text[last]) || text[last] == '\\') {
    return Error{ErrorCode::kInvalidArgument,
                 "write {} in the command where the value belongs: it cannot be added at the end"};
  }
  return ShellText(text + " {}", lists).check();
}

Result<void> check_arguments(const std::vector<std::string>& words, std::size_t lists) {
  for (const std::string& word : words) {
    for (std::size_t at = word.find('$'); at != std::string::npos; at = word.find('$', at + 1)) {
      const std::size_t length = mark_length(std::string_view(word).substr(at + 1), lists);
      if (length == 0) continue;
      const std::string mark = word.substr(at + 1, length);
      return Error{ErrorCode::kInvalidArgument, "the command has $" + mark +
                                                    ", where $ cannot stand before the value; " + "write '$'" + mark +
                                                    " in a shell text instead"};
    }
  }
  return {};
}

}  // namespace rota::cli
