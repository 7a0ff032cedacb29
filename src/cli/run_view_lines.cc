// The views for people: lines, and the live block.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/json_text.h"
#include "cli/format.h"
#include "cli/run_view.h"

namespace rota::cli {

namespace {

using Kind = RunNews::Kind;

constexpr std::size_t kBlockTasks = 10;
constexpr std::size_t kBar = 20;
constexpr std::size_t kNameWidth = 30;
constexpr std::size_t kTimeWidth = 7;
constexpr std::size_t kMessage = 300;  // Bytes of a message that a line shows.

// "done     train  1.24s". `terminal`: the text must not contain anything that a terminal would obey.
std::string line_of(const RunNews& news, bool terminal) {
  const std::string message = printable(news.text, kMessage);
  switch (news.kind) {
    case Kind::kStarted:
      return "start    " + news.name +
             (news.attempt > model::AttemptNumber(1) ? "  (attempt " + std::to_string(news.attempt.value()) + ")"
                                                     : std::string());
    case Kind::kSucceeded:
      return "done     " + news.name + "  " + short_time(news.duration_ns);
    case Kind::kCached:
      return "cached   " + news.name + "  " + message;
    case Kind::kSkipped:
      return "skipped  " + news.name;
    case Kind::kFailed:
      return "FAILED   " + news.name + "  " + message;
    case Kind::kCancelled:
      return "cancelled " + news.name;
    case Kind::kRetry:
      return "retry    " + news.name + (news.duration_ns > 0 ? " in " + short_time(news.duration_ns) : std::string()) +
             (news.text.empty() ? std::string() : "  " + message);
    case Kind::kUnplaceable:
      return "warning: no worker can run " + news.text;
    case Kind::kLog:
      return "log      " + news.name + "  " + message;
    case Kind::kNote:
      return "note     " + news.name + "  " + message;
    case Kind::kOutput:
      return news.name + (news.from_stderr ? " ! " : " | ") + (terminal ? for_a_terminal(news.text) : news.text);
    case Kind::kDropped:
      return news.name + " ! [" + std::to_string(news.bytes) +
             " bytes are not shown here: the program writes faster than rota shows it]";
  }
  return {};
}

class LineView : public RunView {
 public:
  explicit LineView(std::FILE* out) : out_(out), terminal_(::isatty(::fileno(out)) == 1) {}

  void show(const RunNews& news, const RunFacts& /*facts*/, std::int64_t now_ns) override {
    line(line_of(news, terminal_), now_ns);
    flush();
  }
  void say(const std::string& text, const RunFacts& /*facts*/, std::int64_t now_ns) override {
    line(text, now_ns);
    flush();
  }

 protected:
  void line(const std::string& text, std::int64_t now_ns) {
    std::fprintf(out_, "%8.2fs  ", static_cast<double>(now_ns) / 1e9);
    print(text + "\n");
  }
  void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), out_); }
  void flush() { std::fflush(out_); }
  [[nodiscard]] std::FILE* out() const { return out_; }
  [[nodiscard]] bool terminal() const { return terminal_; }

 private:
  std::FILE* const out_;
  const bool terminal_;
};

std::string bar(std::uint64_t part, std::uint64_t whole) {
  const std::size_t full = whole == 0 ? 0 : static_cast<std::size_t>(std::min(part, whole) * kBar / whole);
  return "[" + std::string(full, '#') + std::string(kBar - full, '.') + "]";
}

// Tasks that start, succeed, are skipped or cancelled change the block; everything else is a line as well.
class LiveView final : public LineView {
 public:
  using LineView::LineView;

  void show(const RunNews& news, const RunFacts& facts, std::int64_t now_ns) override {
    switch (news.kind) {
      case Kind::kStarted:
      case Kind::kSucceeded:
      case Kind::kCached:
      case Kind::kSkipped:
      case Kind::kCancelled:
        return;
      default:
        say(line_of(news, terminal()), facts, now_ns);
    }
  }
  void say(const std::string& text, const RunFacts& facts, std::int64_t now_ns) override {
    erase();
    line(text, now_ns);
    draw(facts, now_ns);
    flush();
  }
  void refresh(const RunFacts& facts, std::int64_t now_ns) override {
    erase();
    draw(facts, now_ns);
    flush();
  }
  void finish() override {
    erase();
    flush();
  }

 private:
  // Each line of the block fits into one line of the terminal: otherwise erase() would not remove all of it.
  void block_line(std::string text) {
    struct winsize size{};
    const bool known = ::ioctl(::fileno(out()), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
    const std::size_t columns = known ? size.ws_col : 80;
    if (text.size() >= columns) {
      text.resize(columns - 1);  // It may cut a character in two; the loop removes the rest of that.
      while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.pop_back();
    }
    print(text + "\n");
    ++lines_;
  }
  void erase() {
    if (lines_ > 0) std::fprintf(out(), "\x1b[%zuA\r\x1b[J", lines_);
    lines_ = 0;
  }
  void draw(const RunFacts& facts, std::int64_t now_ns) {
    for (const auto& [index, running] : facts.running()) {
      if (lines_ == kBlockTasks) {
        block_line("  ... and " + std::to_string(facts.running().size() - kBlockTasks) + " more");
        break;
      }
      std::string name = printable(facts.name(index), kNameWidth);
      name.resize(std::max(name.size(), kNameWidth), ' ');
      std::string time = short_time(now_ns - running.since_ns);
      time.insert(0, time.size() < kTimeWidth ? kTimeWidth - time.size() : 0, ' ');
      const std::string gauge = running.has_progress ? bar(running.permille, 1000) : "[" + std::string(kBar, ' ') + "]";
      block_line("  " + gauge + " " + name + " " + time + " " + printable(running.text, 40));
    }
    block_line("  " + totals(facts, now_ns));
  }
  static std::string totals(const RunFacts& facts, std::int64_t now_ns) {
    std::string text =
        bar(facts.done(), facts.total()) + " " + std::to_string(facts.done()) + "/" + std::to_string(facts.total());
    if (facts.cached() > 0) text += ", " + std::to_string(facts.cached()) + " cached";
    if (facts.failed() > 0) text += ", " + std::to_string(facts.failed()) + " failed";
    // The estimate assumes that the remaining tasks take as long as those that ended in this run.
    if (facts.done_here() > 0 && facts.done() < facts.total()) {
      const auto left = static_cast<std::int64_t>(facts.total() - facts.done());
      text += ", about " + short_time(now_ns / static_cast<std::int64_t>(facts.done_here()) * left) + " left";
    }
    return text + "  " + short_time(now_ns);
  }

  std::size_t lines_ = 0;  // Of the block that stands on the terminal.
};

}  // namespace

std::unique_ptr<RunView> make_plain_view(std::FILE* out) { return std::make_unique<LineView>(out); }

std::unique_ptr<RunView> make_live_view(std::FILE* out) { return std::make_unique<LiveView>(out); }

std::unique_ptr<RunView> make_quiet_view() { return std::make_unique<RunView>(); }

}  // namespace rota::cli
