#include "net/fake_redis.h"

#include <charconv>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/sync.h"
#include "fiber/condition.h"
#include "net/resp.h"
#include "rota/fiber/error.h"
#include "rota/fiber/task.h"
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

using Kind = RespValue::Kind;
using std::chrono::nanoseconds;

struct EntryId {
  std::uint64_t ms = 0;
  std::uint64_t seq = 0;
  friend auto operator<=>(const EntryId&, const EntryId&) = default;
  [[nodiscard]] std::string to_string() const { return std::to_string(ms) + "-" + std::to_string(seq); }
};

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kEpochMs = 1'700'000'000'000;  // The server's clock when the runtime's is 0.

struct Stream {
  std::map<EntryId, std::vector<std::string>> entries;
  EntryId last;
};
using List = std::deque<std::string>;
using Set = std::set<std::string>;
using Data = std::map<std::string, std::variant<Stream, List, Set>, std::less<>>;

RespValue text(std::string value) { return {.kind = Kind::kText, .text = std::move(value)}; }
RespValue status(std::string value) { return {.kind = Kind::kStatus, .text = std::move(value)}; }
RespValue error(std::string value) { return {.kind = Kind::kError, .text = std::move(value)}; }
RespValue integer(std::size_t value) { return {.kind = Kind::kInteger, .integer = static_cast<std::int64_t>(value)}; }
RespValue array(std::vector<RespValue> items) { return {.kind = Kind::kArray, .items = std::move(items)}; }
RespValue wrong_type() { return error("WRONGTYPE Operation against a key holding the wrong kind of value"); }
RespValue syntax() { return error("ERR syntax error"); }

template <class Number>
bool parse_number(std::string_view from, Number& number) {
  const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), number);
  return failed == std::errc() && end == from.data() + from.size();
}

std::optional<EntryId> parse_id(std::string_view from, std::uint64_t missing_seq) {
  EntryId id{0, missing_seq};
  const std::size_t dash = from.find('-');
  if (!parse_number(from.substr(0, dash), id.ms)) return std::nullopt;
  if (dash != std::string_view::npos && !parse_number(from.substr(dash + 1), id.seq)) return std::nullopt;
  return id;
}

using Arguments = std::vector<std::string>;

// Finds or makes the value of this type; null: the key holds another type.
template <class T>
T* value_of(Data& data, const std::string& key) {
  return std::get_if<T>(&data.try_emplace(key, T()).first->second);
}

RespValue xadd(Data& data, const Arguments& a, std::uint64_t now_ms) {
  std::size_t at = 2;
  std::size_t most = std::numeric_limits<std::size_t>::max();
  if (a.size() > 4 && a[2] == "MAXLEN") {
    if (!parse_number(a[3], most)) return error("ERR value is not an integer or out of range");
    at = 4;
  }
  if (a.size() < at + 3 || (a.size() - at - 1) % 2 != 0)
    return error("ERR wrong number of arguments for 'xadd' command");
  const std::optional<EntryId> given = a[at] == "*" ? std::nullopt : parse_id(a[at], 0);
  if (a[at] != "*" && !given) return error("ERR Invalid stream ID specified as stream command argument");
  if (given && *given == EntryId{}) return error("ERR The ID specified in XADD must be greater than 0-0");
  Stream* stream = value_of<Stream>(data, a[1]);
  if (stream == nullptr) return wrong_type();
  EntryId id;
  if (given) {
    id = *given;
    if (id <= stream->last) {
      return error("ERR The ID specified in XADD is equal or smaller than the target stream top item");
    }
  } else if (stream->last == EntryId{kMost, kMost}) {
    return error("ERR The stream has exhausted the last possible ID, unable to add more items");
  } else if (now_ms > stream->last.ms) {
    id = {now_ms, 0};
  } else {
    id = stream->last.seq == kMost ? EntryId{stream->last.ms + 1, 0} : EntryId{stream->last.ms, stream->last.seq + 1};
  }
  stream->last = id;
  stream->entries[id] = Arguments(a.begin() + static_cast<std::ptrdiff_t>(at) + 1, a.end());
  while (stream->entries.size() > most) stream->entries.erase(stream->entries.begin());
  return text(id.to_string());
}

struct XRead {
  std::size_t count = std::numeric_limits<std::size_t>::max();
  std::optional<nanoseconds> block;  // None: at once; 0: for ever.
  std::vector<std::pair<std::string, EntryId>> streams;
};

std::optional<RespValue> parse_xread(const Data& data, const Arguments& a, XRead& read) {
  std::size_t at = 1;
  for (; at + 1 < a.size() && a[at] != "STREAMS"; at += 2) {
    std::int64_t block_ms = 0;
    if (a[at] == "COUNT" && parse_number(a[at + 1], read.count)) continue;
    if (a[at] == "BLOCK" && parse_number(a[at + 1], block_ms)) {
      read.block = std::chrono::milliseconds(block_ms);
      continue;
    }
    return syntax();
  }
  const std::size_t rest = a.size() > at ? a.size() - at - 1 : 0;
  if (rest == 0 || rest % 2 != 0)
    return error("ERR Unbalanced XREAD list of streams: for each stream key an ID must be specified.");
  for (std::size_t i = 0; i < rest / 2; ++i) {
    const std::string& key = a[at + 1 + i];
    const std::string& from = a[at + 1 + rest / 2 + i];
    const auto found = data.find(key);
    const Stream* stream = found == data.end() ? nullptr : std::get_if<Stream>(&found->second);
    if (found != data.end() && stream == nullptr) return wrong_type();
    std::optional<EntryId> id = parse_id(from, 0);
    if (from == "$") id = stream == nullptr ? EntryId{} : stream->last;
    if (!id) return error("ERR Invalid stream ID specified as stream command argument");
    read.streams.emplace_back(key, *id);
  }
  return std::nullopt;
}

std::optional<RespValue> try_xread(const Data& data, const XRead& read) {
  std::vector<RespValue> streams;
  for (const auto& [key, after] : read.streams) {
    const auto found = data.find(key);
    if (found == data.end()) continue;
    const Stream* stream = std::get_if<Stream>(&found->second);
    if (stream == nullptr) return wrong_type();
    std::vector<RespValue> entries;
    for (auto it = stream->entries.upper_bound(after); it != stream->entries.end() && entries.size() < read.count;
         ++it) {
      std::vector<RespValue> fields;
      for (const std::string& field : it->second) fields.push_back(text(field));
      entries.push_back(array({text(it->first.to_string()), array(std::move(fields))}));
    }
    if (!entries.empty()) streams.push_back(array({text(key), array(std::move(entries))}));
  }
  if (streams.empty()) return std::nullopt;
  return array(std::move(streams));
}

RespValue xtrim(Data& data, const Arguments& a) {
  if (a.size() != 4 || a[2] != "MINID") return syntax();
  const std::optional<EntryId> least = parse_id(a[3], 0);
  if (!least) return error("ERR Invalid stream ID specified as stream command argument");
  const auto found = data.find(a[1]);
  if (found == data.end()) return integer(0);
  auto* stream = std::get_if<Stream>(&found->second);
  if (stream == nullptr) return wrong_type();
  const std::size_t before = stream->entries.size();
  stream->entries.erase(stream->entries.begin(), stream->entries.lower_bound(*least));
  return integer(before - stream->entries.size());
}

RespValue remove(Data& data, const Arguments& a) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < a.size(); ++i) count += data.erase(a[i]);
  return integer(count);
}

RespValue change_set(Data& data, const Arguments& a, bool add) {
  Set* set = value_of<Set>(data, a[1]);
  if (set == nullptr) return wrong_type();
  std::size_t count = 0;
  for (std::size_t i = 2; i < a.size(); ++i) count += add ? (set->insert(a[i]).second ? 1 : 0) : set->erase(a[i]);
  if (set->empty()) data.erase(a[1]);
  return integer(count);
}

RespValue lpush(Data& data, const Arguments& a) {
  List* list = value_of<List>(data, a[1]);
  if (list == nullptr) return wrong_type();
  for (std::size_t i = 2; i < a.size(); ++i) list->push_front(a[i]);
  return integer(list->size());
}

// How many elements the key's value has, or members, for commands that only look.
template <class T, class Look>
RespValue look_at(const Data& data, const std::string& key, RespValue none, Look look) {
  const auto found = data.find(key);
  if (found == data.end()) return none;
  const T* value = std::get_if<T>(&found->second);
  return value == nullptr ? wrong_type() : look(*value);
}

}  // namespace

struct FakeRedis::Core {
  explicit Core(std::unique_ptr<Listener> the_listener) : listener(std::move(the_listener)) {}

  std::unique_ptr<Listener> listener;
  fiber::Task<void> task{};

  sync::Mutex mutex;
  fiber::Condition changed ROTA_GUARDED_BY(mutex){};  // Woken by everything that may end the wait of a command.
  Data data ROTA_GUARDED_BY(mutex);
  Data replica ROTA_GUARDED_BY(mutex);
  std::uint64_t incarnation ROTA_GUARDED_BY(mutex) = 0;  // Connections of an earlier one are broken.
  bool out_of_memory ROTA_GUARDED_BY(mutex) = false;
  bool paused ROTA_GUARDED_BY(mutex) = false;
  bool closed ROTA_GUARDED_BY(mutex) = false;
  std::map<std::uint64_t, ByteStream*> streams ROTA_GUARDED_BY(mutex);
  std::uint64_t next_stream ROTA_GUARDED_BY(mutex) = 0;

  static std::uint64_t now_ms() {
    return static_cast<std::uint64_t>(kEpochMs +
                                      std::chrono::duration_cast<std::chrono::milliseconds>(fiber::now()).count());
  }

  void accept_all() {
    try {
      fiber::with_scope([this](fiber::Nursery& connections) {
        for (;;) {
          Result<std::unique_ptr<ByteStream>> stream = listener->accept({});
          if (!stream.ok()) {
            if (stream.code() == ErrorCode::kClosed || stream.code() == ErrorCode::kCancelled) break;
            continue;
          }
          connections.launch([this, owned = std::shared_ptr<ByteStream>(std::move(*stream))] { serve(*owned); });
        }
        connections.cancel();
      });
    } catch (const fiber::FiberError&) {
    }
  }

  void serve(ByteStream& stream) {
    std::uint64_t number = 0;
    std::uint64_t mine = 0;
    {
      const sync::MutexLock lock(mutex);
      if (closed) return;
      streams[number = next_stream++] = &stream;
      mine = incarnation;
    }
    try {
      converse(stream, mine);
    } catch (const fiber::Cancelled&) {
    }
    stream.close();
    const sync::MutexLock lock(mutex);
    streams.erase(number);
  }

  void converse(ByteStream& stream, std::uint64_t mine) {
    RespReader reader;
    std::vector<char> buffer(64 * 1024);
    for (;;) {
      const Result<std::size_t> size = stream.read_some(buffer, {});
      if (!size.ok() || *size == 0) return;
      reader.feed(std::string_view(buffer.data(), *size));
      std::string replies;
      for (;;) {
        Result<std::optional<RespValue>> request = reader.next();
        if (!request.ok()) return;
        if (!*request) break;
        Arguments arguments;
        for (RespValue& item : (*request)->items) arguments.push_back(std::move(item.text));
        const std::optional<RespValue> reply = execute(arguments, mine);
        if (!reply) return;
        append_reply(replies, *reply);
      }
      if (!stream.write_all(replies, std::chrono::seconds(60)).ok()) return;
    }
  }

  // Nothing: the connection is broken. Waits if the command does.
  std::optional<RespValue> execute(const Arguments& a, std::uint64_t mine) {
    const bool blpop = !a.empty() && a[0] == "BLPOP" && a.size() == 3;
    const bool is_xread = !a.empty() && a[0] == "XREAD";
    XRead read;
    bool parsed = false;
    nanoseconds until = nanoseconds::max();
    const sync::MutexLock lock(mutex);
    for (;;) {
      if (closed || incarnation != mine) return std::nullopt;
      if (!paused) {
        if (!blpop && !is_xread) return execute_now(a);
        if (!parsed) {
          parsed = true;
          if (is_xread) {
            if (std::optional<RespValue> wrong = parse_xread(data, a, read)) return wrong;
            if (read.block && read.block->count() > 0) until = fiber::now() + *read.block;
          } else {
            std::int64_t seconds = 0;
            if (!parse_number(a[2], seconds)) return error("ERR timeout is not a float or out of range");
            if (seconds > 0) until = fiber::now() + std::chrono::seconds(seconds);
          }
        }
        if (is_xread) {
          if (std::optional<RespValue> reply = try_xread(data, read)) return reply;
          if (!read.block) return RespValue{};
        } else if (std::optional<RespValue> reply = try_blpop(a[1])) {
          return reply;
        }
        if (fiber::now() >= until) return RespValue{};
      }
      // A paused server answers nothing, also when the time of a command is over.
      const Result<void> waited = paused || until == nanoseconds::max()
                                      ? changed.wait(mutex, "a change of the data")
                                      : changed.wait_until(mutex, until, "a change of the data");
      if (!waited.ok() && waited.code() == ErrorCode::kCancelled) return std::nullopt;
    }
  }

  std::optional<RespValue> try_blpop(const std::string& key) ROTA_REQUIRES(mutex) {
    const auto found = data.find(key);
    if (found == data.end()) return std::nullopt;
    auto* list = std::get_if<List>(&found->second);
    if (list == nullptr) return wrong_type();
    RespValue reply = array({text(key), text(std::move(list->front()))});
    list->pop_front();
    if (list->empty()) data.erase(found);
    return reply;
  }

  RespValue execute_now(const Arguments& a) ROTA_REQUIRES(mutex) {
    if (a.empty()) return error("ERR Protocol error");
    const std::string& name = a[0];
    const auto takes = [&](std::size_t least) { return a.size() >= least; };
    const bool grows = name == "XADD" || name == "LPUSH" || name == "SADD";
    if (grows && out_of_memory) return error("OOM command not allowed when used memory > 'maxmemory'.");
    if (name == "PING") return status("PONG");
    if (name == "AUTH" || name == "SELECT") return status("OK");
    if (name == "FLUSHALL") {
      data.clear();
      return status("OK");
    }
    if (grows) changed.wake_all();
    if (name == "XADD" && takes(5)) return xadd(data, a, now_ms());
    if (name == "LPUSH" && takes(3)) return lpush(data, a);
    if (name == "SADD" && takes(3)) return change_set(data, a, true);
    if (name == "SREM" && takes(3)) return change_set(data, a, false);
    if (name == "XTRIM" && takes(4)) return xtrim(data, a);
    if (name == "DEL" && takes(2)) return remove(data, a);
    if (name == "EXISTS" && takes(2)) return integer(data.count(a[1]));
    if (name == "LLEN" && takes(2)) {
      return look_at<List>(data, a[1], integer(0), [](const List& list) { return integer(list.size()); });
    }
    if (name == "SMEMBERS" && takes(2)) {
      return look_at<Set>(data, a[1], array({}), [](const Set& set) {
        std::vector<RespValue> items;
        for (const std::string& item : set) items.push_back(text(item));
        return array(std::move(items));
      });
    }
    return error("ERR unknown command '" + name.substr(0, 128) + "', with args beginning with: ");
  }

  void break_all() ROTA_REQUIRES(mutex) {
    ++incarnation;
    for (const auto& [number, stream] : streams) stream->close();
    changed.wake_all();
  }
};

Result<std::unique_ptr<FakeRedis>> FakeRedis::start(Network& network, const Endpoint& endpoint,
                                                    fiber::Nursery& nursery) {
  ROTA_TRY_ASSIGN(std::unique_ptr<Listener> listener, network.listen(endpoint));
  auto core = std::make_shared<Core>(std::move(listener));
  core->task = nursery.spawn([core] { core->accept_all(); });
  return std::unique_ptr<FakeRedis>(new FakeRedis(std::move(core)));  // NOLINT: the constructor is private.
}

FakeRedis::FakeRedis(std::shared_ptr<Core> core) : core_(std::move(core)) {}
FakeRedis::~FakeRedis() { close(); }

Endpoint FakeRedis::endpoint() const { return core_->listener->endpoint(); }

void FakeRedis::restart_empty() {
  const sync::MutexLock lock(core_->mutex);
  core_->data.clear();
  core_->break_all();
}

void FakeRedis::lose_everything() {
  const sync::MutexLock lock(core_->mutex);
  core_->data.clear();
}

void FakeRedis::remember() {
  const sync::MutexLock lock(core_->mutex);
  core_->replica = core_->data;
}

void FakeRedis::fail_over() {
  const sync::MutexLock lock(core_->mutex);
  core_->data = core_->replica;
  core_->break_all();
}

void FakeRedis::set_out_of_memory(bool on) {
  const sync::MutexLock lock(core_->mutex);
  core_->out_of_memory = on;
}

void FakeRedis::set_paused(bool on) {
  const sync::MutexLock lock(core_->mutex);
  core_->paused = on;
  core_->changed.wake_all();
}

void FakeRedis::break_connections() {
  const sync::MutexLock lock(core_->mutex);
  core_->break_all();
}

void FakeRedis::close() {
  {
    const sync::MutexLock lock(core_->mutex);
    if (std::exchange(core_->closed, true)) return;
    core_->break_all();
  }
  core_->listener->close();
  core_->task.cancel();
}

}  // namespace rota::net
