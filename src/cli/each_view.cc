#include "cli/each_view.h"

#include <cstdio>
#include <utility>

#include "base/json_text.h"
#include "cli/whole_output.h"

namespace rota::cli {

void EachView::show_earlier(const EarlierWork& earlier, const RunFacts& facts) {
  logs_ = facts.shape().logs;
  unread_ = earlier.unread;
  for (const std::uint32_t index : earlier.done) {
    const auto unread = unread_.find(index);
    ends(index, unread == unread_.end() ? model::AttemptId() : unread->second);
    if (unread != unread_.end()) unread_.erase(unread);
  }
}

void EachView::show(const RunNews& news, const RunFacts& facts, std::int64_t /*now_ns*/) {
  using Kind = RunNews::Kind;
  const std::uint32_t index = news.task.index();
  const auto started = attempts_.find(index);
  const model::AttemptId attempt =
      started == attempts_.end() ? model::AttemptId() : model::AttemptId{news.task, started->second};
  switch (news.kind) {
    case Kind::kStarted:
      attempts_[index] = news.attempt;
      return;
    case Kind::kRetry:
      if (started != attempts_.end()) discard(logs_, attempt);
      return;
    case Kind::kFailed:
      std::fprintf(stderr, "rota: %s failed: %s\n", printable(facts.shape().label(index), 400).c_str(),
                   news.text.c_str());
      break;
    case Kind::kCached:
      if (const auto unread = unread_.find(index); unread != unread_.end()) {
        ends(index, unread->second);
        unread_.erase(unread);
        return;
      }
      break;
    case Kind::kSucceeded:
    case Kind::kCancelled:
      break;
    case Kind::kLog:
    case Kind::kUnplaceable:
      output_.note(news.name + (news.name.empty() ? "" : ": ") + news.text);
      return;
    default:
      return;
  }
  if (started != attempts_.end()) attempts_.erase(started);
  ends(index, attempt);
}

void EachView::say(const std::string& text, const RunFacts& /*facts*/, std::int64_t /*now_ns*/) { output_.note(text); }

void EachView::finish() {
  for (const auto& [index, attempt] : std::exchange(ended_, {})) print(attempt);
}

void EachView::ends(std::uint32_t index, const model::AttemptId& attempt) {
  if (!options_.keep_order) return print(attempt);
  ended_.insert_or_assign(index, attempt);
  for (auto next = ended_.find(next_); next != ended_.end(); next = ended_.find(++next_)) {
    print(next->second);
    ended_.erase(next);
  }
}

void EachView::print(const model::AttemptId& attempt) {
  if (attempt == model::AttemptId() || !result_.ok()) return;
  result_ = pass_on(logs_, attempt, options_.out, options_.err);
}

}  // namespace rota::cli
