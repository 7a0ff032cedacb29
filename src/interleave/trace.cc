#include "interleave/trace.h"

#include <cstdio>
#include <cstring>
#include <map>

namespace rota::interleave {
namespace {

std::string file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

void append_padded(std::string& line, const std::string& text, std::size_t width) {
  line += text;
  line.append(text.size() < width ? width - text.size() : 0, ' ');
  line += "  ";
}

}  // namespace

const char* name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

std::string format_value(Value value, std::size_t bytes) {
  char text[48];
  if (bytes > 8) {
    std::snprintf(text, sizeof text, "0x%llx:%016llx", static_cast<unsigned long long>(value.high),
                  static_cast<unsigned long long>(value.low));
    return text;
  }
  const unsigned shift = bytes == 0 ? 0 : static_cast<unsigned>(64 - 8 * bytes);
  const auto as_signed = static_cast<std::int64_t>(value.low << shift) >> shift;
  if (as_signed > -100'000 && as_signed < 10'000'000) return std::to_string(as_signed);
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value.low));
  return text;
}

// A topological order of sb + rf + mo + fr (+ queues, plain accesses, starts and joins), that stays in one thread as
// long as it can.
std::vector<std::size_t> Trace::sequential_order() const {
  const std::size_t count = entries.size();
  std::vector<std::vector<std::size_t>> after(count);
  std::vector<std::size_t> waits_for(count, 0);
  const auto edge = [&](std::size_t from, std::size_t to) {
    if (from == to) return;
    after[from].push_back(to);
    ++waits_for[to];
  };

  std::map<int, std::size_t> last_of_thread;
  std::map<int, std::size_t> starter;
  std::map<ObjectId, std::size_t> last_on_object;
  std::map<StoreId, std::vector<std::size_t>> readers;
  for (std::size_t i = 0; i < count; ++i) {
    const TraceEntry& entry = entries[i];
    if (const auto last = last_of_thread.find(entry.thread); last != last_of_thread.end()) {
      edge(last->second, i);
    } else if (const auto start = starter.find(entry.thread); start != starter.end()) {
      edge(start->second, i);
    }
    last_of_thread[entry.thread] = i;
    if (entry.other >= 0) {
      if (const auto last = last_of_thread.find(entry.other); last != last_of_thread.end()) {
        edge(last->second, i);  // A join.
      } else {
        starter[entry.other] = i;
      }
    }
    const ObjectId ordered = entry.queue_id != kNoObject ? entry.queue_id : (entry.plain ? entry.id : kNoObject);
    if (ordered != kNoObject) {
      if (const auto last = last_on_object.find(ordered); last != last_on_object.end()) edge(last->second, i);
      last_on_object[ordered] = i;
    }
    if (entry.read != kNoStore) {
      edge(makers[entry.read], i);
      readers[entry.read].push_back(i);
    }
  }
  for (const std::vector<StoreId>& order : orders) {
    for (std::size_t p = 0; p + 1 < order.size(); ++p) {
      const std::size_t next = makers[order[p + 1]];
      edge(makers[order[p]], next);
      for (const std::size_t reader : readers[order[p]]) edge(reader, next);
    }
  }

  // At most the next entry of each thread can be ready.
  std::map<int, std::vector<std::size_t>> left;
  for (std::size_t i = count; i-- > 0;) left[entries[i].thread].push_back(i);
  std::vector<std::size_t> result;
  int current = 0;
  const auto ready = [&](int thread) { return !left[thread].empty() && waits_for[left[thread].back()] == 0; };
  while (result.size() < count) {
    if (!ready(current)) {
      std::size_t earliest = count;
      for (const auto& [thread, rest] : left) {
        if (ready(thread) && rest.back() < earliest) earliest = rest.back();
      }
      if (earliest == count) return {};  // A cycle.
      current = entries[earliest].thread;
    }
    const std::size_t pick = left[current].back();
    left[current].pop_back();
    result.push_back(pick);
    for (const std::size_t next : after[pick]) --waits_for[next];
  }
  return result;
}

std::string Trace::render() const {
  std::vector<std::size_t> order = sequential_order();
  const bool sequential = !order.empty() || entries.empty();
  std::string text = sequential ? "An interleaving on sequential memory explains it:\n"
                                : "No interleaving on sequential memory explains it; this is weak memory at work:\n";
  if (!sequential) {
    for (std::size_t i = 0; i < entries.size(); ++i) order.push_back(i);
  }
  std::vector<std::size_t> number(entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) number[order[i]] = i + 1;
  constexpr std::size_t kHead = 60;
  constexpr std::size_t kTail = 140;
  int last_thread = -1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order.size() > kHead + kTail && i == kHead) {
      text += "       ... " + std::to_string(order.size() - kHead - kTail) + " more ...\n";
      i = order.size() - kTail;
    }
    const std::size_t index = order[i];
    const TraceEntry& entry = entries[index];
    std::string line;
    char head[32];
    std::snprintf(head, sizeof head, "%5zu  ", number[index]);
    line += head;
    append_padded(line, entry.thread == last_thread ? "" : "T" + std::to_string(entry.thread), 3);
    last_thread = entry.thread;
    append_padded(line, entry.what, 24);
    append_padded(line, entry.object, 12);
    std::string detail = entry.detail;
    if (entry.read != kNoStore) detail += "  from #" + std::to_string(number[makers[entry.read]]);
    if (entry.stale && !sequential) detail += " (old)";
    append_padded(line, detail, 28);
    if (entry.where.file != nullptr) line += file_name(entry.where.file) + ":" + std::to_string(entry.where.line);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace rota::interleave
