// The view for pipes, files and simple terminals: one line per thing that happens.
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/json_text.h"
#include "cli/format.h"
#include "cli/run_view.h"

namespace rota::cli {

namespace {

using Kind = RunNews::Kind;

constexpr std::size_t kMessage = 300;  // Bytes of a message that a line shows.

}  // namespace

std::string news_line(const RunNews& news, bool terminal) {
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

namespace {

class LineView final : public RunView {
 public:
  explicit LineView(std::FILE* out) : out_(out), terminal_(::isatty(::fileno(out)) == 1) {}

  void show(const RunNews& news, const RunFacts& /*facts*/, std::int64_t now_ns) override {
    line(news_line(news, terminal_), now_ns);
    flush();
  }
  void say(const std::string& text, const RunFacts& /*facts*/, std::int64_t now_ns) override {
    line(text, now_ns);
    flush();
  }

 private:
  void line(const std::string& text, std::int64_t now_ns) {
    std::fprintf(out_, "%8.2fs  ", static_cast<double>(now_ns) / 1e9);
    print(text + "\n");
  }
  void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), out_); }
  void flush() { std::fflush(out_); }

  std::FILE* const out_;
  const bool terminal_;
};

}  // namespace

std::unique_ptr<RunView> make_plain_view(std::FILE* out) { return std::make_unique<LineView>(out); }

std::unique_ptr<RunView> make_quiet_view() { return std::make_unique<RunView>(); }

}  // namespace rota::cli
