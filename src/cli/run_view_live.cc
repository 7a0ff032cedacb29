// The live view of a run on a terminal (C-3).
//
//   nightly  wf-3                                             the header, if there is room for it
//     train  [####......] 12/100, 3 running, 1 failed         stages, if there are many tasks
//     train[12] lr=0.1 seed=2  [##...]     12.3s  epoch 3     running tasks
//   [######..........] 40/120, 1 failed, about 2m10s left  1m02s
//
// The block never has more lines than the terminal has rows, less one, and no line is wider than the terminal, less one
// column: otherwise erasing it would leave parts behind.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "cli/format.h"
#include "cli/places.h"
#include "cli/run_summary.h"
#include "cli/run_view.h"
#include "cli/terminal.h"

namespace rota::cli {

namespace {

using Kind = RunNews::Kind;

constexpr std::size_t kMostLines = 20;    // Of the block.
constexpr std::size_t kManyTasks = 30;    // With more tasks, stages are shown.
constexpr std::size_t kFailureLines = 5;  // Of the log of a task that failed.
constexpr std::size_t kTimeWidth = 7;
constexpr std::int64_t kDrawEveryNs = 100'000'000;

std::string bar(std::uint64_t part, std::uint64_t whole, std::size_t width) {
  const std::size_t full = whole == 0 ? 0 : static_cast<std::size_t>(std::min(part, whole) * width / whole);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

class LiveView final : public RunView {
 public:
  LiveView(std::FILE* out, bool verbose) : out_(out), verbose_(verbose) {}

  void show(const RunNews& news, const RunFacts& facts, std::int64_t now_ns) override {
    switch (news.kind) {
      case Kind::kStarted:
      case Kind::kSucceeded:
      case Kind::kCached:
      case Kind::kSkipped:
      case Kind::kCancelled:
        // These change the block only.
        if (!verbose_) return;
        return say(news_line(news, true), facts, now_ns);
      case Kind::kFailed:
        return failure(news, facts, now_ns);
      case Kind::kRetry:
        return lines({coloured(news_line(news, true), Colour::kYellow, true)}, facts, now_ns);
      default:
        return say(news_line(news, true), facts, now_ns);
    }
  }
  void say(const std::string& text, const RunFacts& facts, std::int64_t now_ns) override {
    lines({text}, facts, now_ns);
  }
  void refresh(const RunFacts& facts, std::int64_t now_ns) override {
    if (now_ns < drawn_ns_ + kDrawEveryNs && drawn_ns_ != 0) return;
    erase();
    draw(facts, now_ns);
    std::fflush(out_);
  }
  void finish() override {
    erase();
    std::fflush(out_);
  }

 private:
  // A failure with the end of its log, at once.
  void failure(const RunNews& news, const RunFacts& facts, std::int64_t now_ns) {
    RunNews labelled = news;
    if (facts.has(news.task)) labelled.name = facts.shape().label(news.task.index());
    std::vector<std::string> text{coloured(news_line(labelled, true), Colour::kRed, true)};
    if (!facts.shape().logs.empty() && news.attempt.value() > 0) {
      const std::string log = facts.shape().logs + "/" + log_name(news.task, news.attempt);
      std::string_view rest;
      const std::string end = log_end(log, kFailureLines);
      for (rest = end; !rest.empty();) {
        const std::size_t length = std::min(rest.find('\n'), rest.size());
        text.push_back("  " + coloured("| " + for_a_terminal(rest.substr(0, length)), Colour::kRed, true));
        rest.remove_prefix(std::min(length + 1, rest.size()));
      }
    }
    lines(text, facts, now_ns);
  }

  // Lines that stay, above the block.
  void lines(const std::vector<std::string>& text, const RunFacts& facts, std::int64_t now_ns) {
    erase();
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i == 0) {
        std::fprintf(out_, "%8.2fs  ", static_cast<double>(now_ns) / 1e9);
      } else {
        print("           ");
      }
      print(text[i] + "\n");
    }
    draw(facts, now_ns);
    std::fflush(out_);
  }

  void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), out_); }

  void erase() {
    if (lines_ > 0) std::fprintf(out_, "\x1b[%zuA\r\x1b[J", lines_);
    lines_ = 0;
  }
  void block_line(const std::string& text) {
    print(fit_end(text, columns_) + "\n");
    ++lines_;
  }

  void draw(const RunFacts& facts, std::int64_t now_ns) {
    const Terminal terminal = terminal_of(out_);
    drawn_ns_ = std::max<std::int64_t>(now_ns, 1);
    columns_ = terminal.columns > 1 ? terminal.columns - 1 : 1;
    std::size_t room = std::clamp<std::size_t>(terminal.rows, 2, kMostLines + 1) - 1;
    --room;  // The totals.
    if (room >= 5 && !facts.shape().title.empty()) {
      block_line(facts.shape().title +
                 (facts.workflow().is_none() ? std::string() : "  " + facts.workflow().to_string()));
      --room;
    }
    if (facts.total() > kManyTasks) room -= stages(facts, facts.running().empty() ? room : (room + 1) / 2);
    running(facts, now_ns, room);
    block_line(totals(facts, now_ns));
  }

  // Stages that are under way or have failures; the number of lines.
  std::size_t stages(const RunFacts& facts, std::size_t room) {
    const std::vector<RunFacts::StageCount>& counts = facts.stages();
    std::vector<std::size_t> active;
    std::size_t more = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const bool under_way =
          counts[s].running > 0 || (counts[s].done > 0 && counts[s].done < facts.shape().stages[s].tasks);
      if (!under_way && counts[s].failed == 0) continue;
      if (active.size() < room) {
        active.push_back(s);
      } else {
        ++more;
      }
    }
    if (more > 0 && !active.empty()) {
      active.pop_back();
      ++more;
    }
    std::size_t width = 0;
    for (const std::size_t s : active) width = std::max(width, display_width(facts.shape().stages[s].name));
    const std::size_t gauge = columns_ >= 60 ? 20 : columns_ >= 50 ? 10 : 0;
    width = std::min(width, columns_ > gauge + 26 ? columns_ - gauge - 26 : 8);
    for (const std::size_t s : active) {
      const RunFacts::StageCount& count = counts[s];
      const std::uint32_t tasks = facts.shape().stages[s].tasks;
      std::string text = "  " + padded(fit_middle(facts.shape().stages[s].name, width), width) + "  " +
                         (gauge > 0 ? bar(count.done, tasks, gauge) + " " : std::string()) +
                         std::to_string(count.done) + "/" + std::to_string(tasks);
      if (count.running > 0) text += ", " + std::to_string(count.running) + " running";
      if (count.failed > 0) text += ", " + std::to_string(count.failed) + " failed";
      block_line(text);
    }
    if (more > 0 && room > 0) block_line("  ... and " + counted(more, "more stage"));
    return active.size() + (more > 0 && room > 0 ? 1 : 0);
  }

  void running(const RunFacts& facts, std::int64_t now_ns, std::size_t room) {
    if (room == 0) return;
    std::size_t shown = std::min(facts.running().size(), room);
    if (facts.running().size() > room) shown = room - 1;
    const std::size_t gauge = columns_ >= 60 ? 20 : 0;
    const bool any_progress = std::any_of(facts.running().begin(), facts.running().end(),
                                          [](const auto& each) { return each.second.has_progress; });
    const std::size_t fixed = 2 + kTimeWidth + 2 + (gauge > 0 && any_progress ? gauge + 4 : 0);
    // As wide as the widest name that is shown, as long as half the line is left for the message.
    std::size_t width = 0;
    std::size_t i = 0;
    for (const auto& [index, task] : facts.running()) {
      if (i++ == shown) break;
      width = std::max(width, display_width(printable(facts.shape().label(index), 400)));
    }
    const std::size_t left = columns_ > fixed ? columns_ - fixed : 1;
    width = std::min(width, left);
    i = 0;
    for (const auto& [index, task] : facts.running()) {
      if (i++ == shown) break;
      const std::string name = fit_middle(printable(facts.shape().label(index), 400), width);
      std::string text = "  " + padded(name, width) + "  ";
      if (gauge > 0 && any_progress) {
        text += (task.has_progress ? bar(task.permille, 1000, gauge) : "[" + std::string(gauge, ' ') + "]") + "  ";
      }
      text += padded_front(short_time(now_ns - task.since_ns), kTimeWidth) + " " + printable(task.text, 200);
      block_line(text);
    }
    if (facts.running().size() > shown) block_line("  ... and " + counted(facts.running().size() - shown, "more task"));
  }

  std::string totals(const RunFacts& facts, std::int64_t now_ns) const {
    const std::size_t gauge = columns_ >= 70 ? 20 : columns_ >= 50 ? 10 : 0;
    std::string text = (gauge > 0 ? bar(facts.done(), facts.total(), gauge) + " " : std::string()) +
                       std::to_string(facts.done()) + "/" + std::to_string(facts.total());
    if (facts.failed() > 0) text += ", " + std::to_string(facts.failed()) + " failed";
    // What fits into the line; a part of a number would be wrong.
    const auto add = [&](const std::string& more) {
      const bool fits = display_width(text) + display_width(more) <= columns_;
      if (fits) text += more;
      return fits;
    };
    if (facts.done() < facts.total()) {
      const std::string left = short_time(facts.time_left_ns(now_ns)) + " left";
      if (!left.starts_with('-') && !add(", about " + left)) add(", " + left);
    }
    if (facts.cached() > 0) add(", " + std::to_string(facts.cached()) + " kept");
    add("  " + short_time(now_ns));
    return text;
  }

  std::FILE* const out_;
  const bool verbose_;
  std::size_t lines_ = 0;  // Of the block that stands on the terminal.
  std::size_t columns_ = 79;
  std::int64_t drawn_ns_ = 0;
};

}  // namespace

std::unique_ptr<RunView> make_live_view(std::FILE* out, bool verbose) {
  return std::make_unique<LiveView>(out, verbose);
}

}  // namespace rota::cli
