// How bytes and faults travel in a simulated network. See sim_world.h for the invariants.
#include "net/sim_world.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "rota/assert.h"

namespace rota::net::sim {

namespace {

constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::size_t kCompactBytes = 32 << 10;

bool drawn(Prng& random, std::uint32_t ppm) { return ppm != 0 && random.chance(ppm, kMillion); }

// Uniform from 0 to `most`.
Time up_to(Prng& random, Time most) { return most.count() <= 0 ? Time(0) : Time(random.between(0, most.count())); }

// The time that the line needs for the bytes.
Time transmission(const LinkOptions& link, std::size_t bytes) {
  if (link.bytes_per_second == 0) return Time(0);
  __extension__ using Wide = unsigned __int128;
  const Wide ns = Wide{bytes} * 1'000'000'000U / link.bytes_per_second;
  return Time(static_cast<std::int64_t>(std::min<Wide>(ns, Wide{std::numeric_limits<std::int64_t>::max() / 4})));
}

std::size_t segment_size(Pipe& pipe, const LinkOptions& link) {
  if (pipe.one_byte) return 1;
  const std::size_t low = std::max<std::size_t>(link.min_segment_bytes, 1);
  const std::size_t high = std::max(link.max_segment_bytes, low);
  return low == high ? low : low + pipe.random.below(high - low + 1);
}

}  // namespace

const LinkOptions& World::link(const std::string& from, const std::string& to) const {
  if (const auto found = links.find({from, to}); found != links.end()) return found->second;
  return from == to ? options.loopback : options.link;
}

std::optional<Time> World::blocked_since(const std::string& from, const std::string& to) const {
  if (from == to) return std::nullopt;
  std::optional<Time> since;
  const auto consider = [&](Time time) { since = since.has_value() ? std::min(*since, time) : time; };
  if (const auto found = cut.find({from, to}); found != cut.end()) consider(found->second);
  for (const std::string& node : {from, to}) {
    if (const auto found = isolated.find(node); found != isolated.end()) consider(found->second);
  }
  return since;
}

bool World::blocked(const Connection& c, int from) const {
  return c.silent || blocked_since(c.node[from], c.node[1 - from]).has_value();
}

// Acknowledgements and keep-alive probes need both directions, so one that is cut ends the connection at both ends.
Time World::dead_at(const Connection& c) const {
  Time since = c.silent ? c.silent_since : kHeld;
  for (const int from : {0, 1}) {
    if (const auto cut_since = blocked_since(c.node[from], c.node[1 - from])) since = std::min(since, *cut_since);
  }
  return since == kHeld ? kHeld : plus(since, options.give_up);
}

std::shared_ptr<Connection> World::make(const std::string& from, const std::string& to) {
  const std::uint64_t attempt = ++connects[{from, to}];
  const auto number_of = [&](std::uint64_t direction) {
    return Hasher().add(from).add(to).add(attempt).add(direction).finish64();
  };
  auto c = std::make_shared<Connection>(options.seed, number_of(0), number_of(1));
  c->number = ++last_number;
  c->node[0] = from;
  c->node[1] = to;
  for (const int side : {0, 1}) {
    c->pipe[side].one_byte = drawn(c->pipe[side].random, link(c->node[side], c->node[1 - side]).one_byte_ppm);
  }
  return c;
}

Time World::crossing(Connection& c, int from) {
  const LinkOptions& way = link(c.node[from], c.node[1 - from]);
  return way.latency + up_to(c.pipe[from].random, way.jitter);
}

// Draws the jitter and reserves the line. REQUIRES: !blocked().
Time World::arrival(Connection& c, int from, std::size_t bytes, Time now) {
  Pipe& pipe = c.pipe[from];
  const LinkOptions& way = link(c.node[from], c.node[1 - from]);
  pipe.line_free = plus(std::max(now, pipe.line_free), transmission(way, bytes));
  Time time = plus(pipe.line_free, crossing(c, from));
  if (bytes != 0 && drawn(pipe.random, way.stall_ppm)) time = plus(time, up_to(pipe.random, way.stall));
  pipe.last_arrival = std::max(pipe.last_arrival, time);
  return pipe.last_arrival;
}

std::size_t World::space(const Connection& c, int from) const {
  const std::size_t used = c.pipe[from].unread_bytes() + c.pipe[from].lost_bytes;
  return options.buffer_bytes - std::min(used, options.buffer_bytes);
}

bool World::send(Connection& c, int from, std::string_view bytes, Time now, std::size_t* sent) {
  ROTA_ASSERT(bytes.size() <= space(c, from), "more is sent than fits");
  Pipe& pipe = c.pipe[from];
  const LinkOptions& way = link(c.node[from], c.node[1 - from]);
  note(1, c, from, bytes, now);
  stats.sent_bytes += bytes.size();
  *sent = bytes.size();
  if (pipe.reader_gone) {  // The peer answers the first of them with a reset.
    pipe.lost_bytes += bytes.size();
    if (!c.end[from].reset) {
      const bool held = blocked(c, 0) || blocked(c, 1);
      reset_end(c, from, held ? kHeld : plus(arrival(c, from, bytes.size(), now), crossing(c, 1 - from)));
    }
    return true;
  }
  for (std::string_view rest = bytes; !rest.empty();) {
    std::size_t size = std::min(segment_size(pipe, way), rest.size());
    const bool resets = drawn(pipe.random, way.reset_ppm);
    if (!resets && drawn(pipe.random, way.half_open_ppm)) silence(c, now);
    if (resets) size = pipe.random.below(size);  // The rest of the segment is lost.
    if (size != 0) {
      pipe.unread.append(rest.substr(0, size));
      pipe.segments.push_back({size, blocked(c, from) ? kHeld : arrival(c, from, size, now)});
    }
    rest.remove_prefix(size);
    if (resets) {
      *sent = bytes.size() - rest.size();
      stats.resets += 1;
      reset_end(c, from, now);
      reset_end(c, 1 - from, blocked(c, from) ? kHeld : arrival(c, from, 0, now));
      return false;
    }
  }
  c.changed.wake_all();
  return true;
}

std::size_t World::receive(Connection& c, int at, std::span<char> buffer, Time now) {
  Pipe& pipe = c.pipe[1 - at];
  if (pipe.segments.empty() || pipe.segments.front().arrives > now) return 0;
  Pipe::Segment& segment = pipe.segments.front();
  const std::size_t size = std::min(segment.bytes, buffer.size());
  std::copy_n(pipe.unread.data() + pipe.head, size, buffer.data());
  note(2, c, at, {buffer.data(), size}, now);
  stats.read_bytes += size;
  pipe.head += size;
  segment.bytes -= size;
  if (segment.bytes == 0) pipe.segments.pop_front();
  if (pipe.head == pipe.unread.size() || pipe.head >= kCompactBytes) {
    pipe.unread.erase(0, pipe.head);
    pipe.head = 0;
  }
  c.changed.wake_all();  // There is room for the writer.
  return size;
}

void World::end_writing(Connection& c, int from, Time now) {
  Pipe& pipe = c.pipe[from];
  if (pipe.ended) return;
  pipe.ended = true;
  pipe.end_arrives = blocked(c, from) ? kHeld : arrival(c, from, 0, now);
  note(3, c, from, {}, now);
  c.changed.wake_all();
}

void World::close(Connection& c, int at, Time now, bool abort) {
  if (c.end[at].closed) return;
  c.end[at].closed = true;
  const int peer = 1 - at;
  Pipe& incoming = c.pipe[peer];
  // Bytes that nobody will read reset the peer.
  if (abort || (!incoming.segments.empty() && incoming.segments.front().arrives <= now)) {
    if (!c.end[peer].reset) reset_end(c, peer, blocked(c, at) ? kHeld : arrival(c, at, 0, now));
  } else {
    end_writing(c, at, now);
    if (!incoming.segments.empty() && !c.end[peer].reset) {  // They will arrive at nobody.
      const Time arrives = incoming.segments.front().arrives;
      const bool held = arrives == kHeld || blocked(c, at);
      reset_end(c, peer, held ? kHeld : plus(arrives, crossing(c, at)));
    }
  }
  incoming.reader_gone = true;
  incoming.lost_bytes += incoming.unread_bytes();
  incoming.segments.clear();
  incoming.unread.clear();
  incoming.head = 0;
  note(4, c, at, {}, now);
  c.changed.wake_all();
  if (c.end[peer].closed) live.erase(c.number);
}

void World::close(Acceptor& acceptor, Time now) {
  if (acceptor.closed) return;
  acceptor.closed = true;
  for (const std::shared_ptr<Connection>& c : acceptor.pending) close(*c, 1, now, true);
  acceptor.pending.clear();
  acceptor.changed.wake_all();
  topology.wake_all();
  acceptors.erase({acceptor.node, acceptor.key});
}

void World::drop_after(Pipe& pipe, Time when) {
  while (!pipe.segments.empty() && pipe.segments.back().arrives > when) {
    pipe.unread.resize(pipe.unread.size() - pipe.segments.back().bytes);
    pipe.segments.pop_back();
  }
}

// An end that is told twice keeps the earlier time.
void World::reset_end(Connection& c, int at, Time when) {
  End& end = c.end[at];
  end.reset_at = end.reset ? std::min(end.reset_at, when) : when;
  end.reset = true;
  if (end.reset_at != kHeld) drop_after(c.pipe[1 - at], end.reset_at);
  c.changed.wake_all();
}

void World::reset_both(Connection& c, Time now) {
  stats.resets += 1;
  note(5, c, 0, {}, now);
  reset_end(c, 0, now);
  reset_end(c, 1, now);
}

void World::silence(Connection& c, Time now) {
  if (c.silent) return;
  stats.drops += 1;
  c.silent = true;
  c.silent_since = now;
  note(6, c, 0, {}, now);
  c.changed.wake_all();  // They now wait for the time at which it is given up.
}

void World::expire(Connection& c, Time now) {
  if (c.expired) return;
  const Time dead = dead_at(c);
  if (dead > now) return;
  c.expired = true;
  stats.timeouts += 1;
  for (const int at : {0, 1}) {
    c.end[at].timed_out = !c.end[at].reset || c.end[at].reset_at > dead;
    reset_end(c, at, dead);
  }
}

void World::expire_all(Time now) {
  for (const auto& [number, c] : live) expire(*c, now);
}

void World::release(Time now) {
  for (const auto& [number, c] : live) {
    for (const int from : {0, 1}) {
      if (blocked(*c, from)) continue;
      Pipe& pipe = c->pipe[from];
      const auto held = std::find_if(pipe.segments.begin(), pipe.segments.end(),
                                     [](const Pipe::Segment& segment) { return segment.arrives == kHeld; });
      const bool end_held = pipe.ended && pipe.end_arrives == kHeld;
      const Time resent = held == pipe.segments.end() && !end_held ? now : now + up_to(pipe.random, kRetransmit);
      for (auto segment = held; segment != pipe.segments.end(); ++segment) {
        segment->arrives = arrival(*c, from, segment->bytes, resent);
      }
      if (end_held) pipe.end_arrives = arrival(*c, from, 0, resent);
      if (End& end = c->end[1 - from]; end.reset && end.reset_at == kHeld) {
        reset_end(*c, 1 - from, arrival(*c, from, 0, resent));
      }
    }
    c->changed.wake_all();
  }
  topology.wake_all();
}

void World::note(std::uint64_t what, const Connection& c, int side, std::string_view bytes, Time now) {
  digest = Hasher()
               .add(digest)
               .add(what)
               .add(c.number)
               .add(static_cast<std::uint64_t>(side))
               .add(static_cast<std::uint64_t>(now.count()))
               .add(hash64(bytes))
               .finish64();
}

}  // namespace rota::net::sim
