#include "bus/redis_link.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/hash.h"
#include "model/codec.h"
#include "rota/assert.h"

namespace rota::bus {

namespace {

constexpr std::size_t kMostFrameMessages = 1024;
constexpr std::size_t kMostFrameBytes = std::size_t{256} << 10;
constexpr std::size_t kMostRetired = 16;
constexpr std::size_t kMostNotices = 8;
constexpr Link::Time kRequestAgain = std::chrono::milliseconds(500);
constexpr Link::Time kResendAgain = std::chrono::milliseconds(100);  // What a hostile peer can cause is bounded.
constexpr Link::Time kMostProbePause = std::chrono::minutes(1);
constexpr std::uint64_t kMostGeneration = std::uint64_t{1} << 62;  // What an honest peer can have read.

// The version, and the checksum of the rest, the lowest byte first.
std::array<char, kFrameHeadBytes> head_of(std::string_view rest) {
  std::array<char, kFrameHeadBytes> head{static_cast<char>(kFrameVersion)};
  const std::uint64_t checksum = hash64(rest);
  for (std::size_t i = 1; i < head.size(); ++i) head[i] = static_cast<char>(checksum >> (8 * (i - 1)) & 0xff);
  return head;
}

}  // namespace

std::optional<StreamId> StreamId::parse(std::string_view text) {
  StreamId id;
  const char* const end = text.data() + text.size();
  auto [dash, error] = std::from_chars(text.data(), end, id.major);
  if (error != std::errc() || dash == end || *dash != '-') return std::nullopt;
  auto [rest, second_error] = std::from_chars(dash + 1, end, id.minor);
  if (second_error != std::errc() || rest != end) return std::nullopt;
  return id;
}

std::string StreamId::to_string() const { return std::to_string(major) + "-" + std::to_string(minor); }

std::string encode_frame(const Frame& frame) {
  std::string bytes(kFrameHeadBytes, '\0');
  model::encode(frame, bytes);
  seal_frame(bytes);
  return bytes;
}

void seal_frame(std::string& bytes) {
  const std::array<char, kFrameHeadBytes> head = head_of(std::string_view(bytes).substr(kFrameHeadBytes));
  std::copy(head.begin(), head.end(), bytes.begin());
}

Result<Frame> decode_frame(std::string_view bytes) {
  if (bytes.empty()) return Error{ErrorCode::kCorrupt, "the entry is empty"};
  const auto version = static_cast<std::uint8_t>(bytes.front());
  if (version != kFrameVersion) {
    return Error{ErrorCode::kUnsupported,
                 "the entry has version " + std::to_string(version) + " of the bus; this program reads version " +
                     std::to_string(kFrameVersion) + ". Run the same release of rota on the host and on its workers"};
  }
  if (bytes.size() < kFrameHeadBytes ||
      !std::ranges::equal(head_of(bytes.substr(kFrameHeadBytes)), bytes.substr(0, kFrameHeadBytes))) {
    return Error{ErrorCode::kCorrupt, "the entry is cut or damaged: its " + std::to_string(bytes.size()) +
                                          " bytes do not have the checksum that its sender computed"};
  }
  ROTA_TRY_ASSIGN(Frame frame, model::decode<Frame>(bytes.substr(kFrameHeadBytes)));
  // Numbers are counted up from these: near the end of the range they could overflow.
  if (frame.from == 0 || frame.base == 0 || frame.first == 0 || frame.first >= kMostGeneration ||
      frame.base >= kMostGeneration) {
    return Error{ErrorCode::kCorrupt, "the entry has a number that no entry can have"};
  }
  return frame;
}

// ---------------------------------------------------------------------------------------------------------------
// sending

bool Link::has_room(std::size_t message_bytes, Weight weight) const {
  const std::size_t messages = weight == Weight::kMajor ? bounds_.messages : bounds_.messages - bounds_.messages / 8;
  const std::size_t bytes = weight == Weight::kMajor ? bounds_.bytes : bounds_.bytes - bounds_.bytes / 8;
  return kept_messages_ == 0 || (kept_messages_ < messages && kept_bytes_ + message_bytes <= bytes);
}

void Link::push(std::string message, Time now) {
  if (kept_messages_ == 0) {
    probe_pause_ = bounds_.probe_after;
    probe_at_ = now + probe_pause_;
  }
  ++kept_messages_;
  kept_bytes_ += message.size();
  ++next_number_;
  queued_.push_back(std::move(message));
}

bool Link::is_flushed() const { return queued_.empty() && to_write_ == 0; }

bool Link::wants_write() const {
  if (!pending_.empty()) return false;
  if (!notices_.empty() || empty_wanted_) return true;
  return may_write_messages() && (!queued_.empty() || to_write_ > 0);
}

void Link::set_written(Entry& entry, bool written) {
  if (entry.written == written) return;
  entry.written = written;
  written ? --to_write_ : ++to_write_;
}

Frame Link::header(std::uint64_t to, Time now) {
  Frame frame;
  frame.from = process_;
  frame.to = to;
  frame.base = peer_acknowledged_ + 1;
  frame.read = cursor_.major;
  frame.term = term_;
  if (to != peer_ || to == 0) return frame;
  frame.probe = std::exchange(probe_wanted_, false);
  frame.acknowledged = told_ = acknowledgement();
  untold_bytes_ = 0;
  acknowledge_at_ = Time::max();
  if (resend_from_ != 0) {
    frame.resend_from = requested_ = std::exchange(resend_from_, 0);
    requested_at_ = now;
  }
  return frame;
}

void Link::add_write(std::vector<Write>& writes, const Frame& frame, Pending pending) {
  writes.push_back({pending.kind == Pending::Kind::kOpen ? "*" : pending.id.to_string(), encode_frame(frame)});
  pending_.push_back(pending);
}

std::vector<Link::Write> Link::take_writes(Time now, std::size_t most_bytes) {
  std::vector<Write> writes;
  if (!wants_write()) return writes;
  if (!generation_) {
    Frame open = header(peer_, now);
    open.first = open.base;  // The messages follow.
    empty_wanted_ = false;
    add_write(writes, open, {Pending::Kind::kOpen, {}, false});
    return writes;
  }
  std::size_t bytes = 0;
  const auto add_entry = [&](Entry& entry) {
    Frame frame = header(peer_, now);
    frame.first = entry.first;
    frame.messages = std::move(entry.messages);
    add_write(writes, frame, {Pending::Kind::kEntry, entry.id, entry.attempted});
    entry.messages = std::move(frame.messages);
    entry.attempted = true;
    bytes += writes.back().bytes.size();
  };
  if (may_write_messages()) {
    if (to_write_ > 0) {
      for (Entry& entry : entries_) {
        if (entry.written) continue;
        if (bytes >= most_bytes) break;
        add_entry(entry);
      }
    }
    while (!queued_.empty() && bytes < most_bytes) {
      Entry& entry = entries_.emplace_back();
      ++to_write_;
      entry.id = next_id();
      entry.first = first_queued();
      std::size_t size = 0;
      while (!queued_.empty() && entry.messages.size() < kMostFrameMessages &&
             (size == 0 || size + queued_.front().size() <= kMostFrameBytes)) {
        size += queued_.front().size();
        entry.messages.push_back(std::move(queued_.front()));
        queued_.pop_front();
      }
      add_entry(entry);
    }
  }
  for (const Notice& notice : std::exchange(notices_, {})) {
    Frame frame = header(notice.to, now);
    frame.first = first_queued();
    frame.notice = notice.kind;
    frame.notice_number = notice.number;
    frame.notice_text = notice.text;
    add_write(writes, frame, {Pending::Kind::kEmpty, next_id(), false});
  }
  // Every frame has what an empty one has.
  if (writes.empty() || bytes == 0) {
    if (empty_wanted_) {
      Frame frame = header(peer_, now);
      frame.first = may_write_messages() ? first_queued() : frame.base;
      add_write(writes, frame, {Pending::Kind::kEmpty, next_id(), false});
    }
  }
  empty_wanted_ = false;
  return writes;
}

void Link::written(WriteResult result, StreamId id) {
  ROTA_ASSERT(!pending_.empty(), "the result of a write that was not taken");
  const Pending pending = pending_.front();
  pending_.pop_front();
  if (pending.kind == Pending::Kind::kOpen) {
    if (result == WriteResult::kWritten) return begin_generation(id);
    empty_wanted_ = true;  // Again.
    return;
  }
  if (pending.kind == Pending::Kind::kEntry) {
    if (result == WriteResult::kIdTooLow && pending.retry) {
      // Redis has the entry as it was written first; what this frame said besides, an acknowledgement perhaps, is lost.
      result = WriteResult::kWritten;
      empty_wanted_ = true;
    }
    const auto entry = std::lower_bound(entries_.begin(), entries_.end(), pending.id,
                                        [](const Entry& e, const StreamId& wanted) { return e.id < wanted; });
    // Meanwhile it may have been acknowledged, or have got another id.
    const bool known = entry != entries_.end() && entry->id == pending.id;
    if (result == WriteResult::kWritten && known) set_written(*entry, true);
  }
  if (result == WriteResult::kIdTooLow || (result == WriteResult::kRefused && pending.kind == Pending::Kind::kEntry)) {
    reopen_ = true;
  }
  if (!pending_.empty() || !reopen_) return;
  reopen_ = false;
  generation_.reset();
  empty_wanted_ = true;
}

void Link::begin_generation(StreamId opened) {
  const std::uint64_t generation = std::max(opened.major, least_generation_) + 1;
  if (generation_ && *generation_ >= generation) return;
  generation_ = generation;
  least_generation_ = generation;
  counter_ = 0;
  new_ids_from(0);
}

void Link::new_ids_from(std::uint64_t number) {
  if (!generation_) return;  // They get new ids when the generation begins.
  bool first = true;
  for (Entry& entry : entries_) {
    if (entry.last() < number) continue;
    entry.id = next_id();
    entry.attempted = false;
    set_written(entry, false);
    // The other end has everything before the first one, and the copies under old ids are of no use any more.
    if (std::exchange(first, false)) written_trim_ = std::max(written_trim_, entry.id);
    ++written_trimmable_;
  }
}

void Link::connection_lost() {
  pending_.clear();
  reopen_ = false;
  probe_soon_ = true;
  for (Entry& entry : entries_) set_written(entry, false);
}

void Link::probe_soon(Time now) {
  probe_soon_ = false;
  probe_pause_ = bounds_.probe_after;
  probe_at_ = kept_messages_ == 0 ? Time::max() : std::min(probe_at_, now + probe_pause_);
}

void Link::tell(std::uint64_t process, NoticeKind kind, std::uint64_t number, std::string text) {
  if (notices_.size() < kMostNotices) notices_.push_back({process, kind, number, std::move(text)});
}

const std::string* Link::find(std::uint64_t number) const {
  for (const Entry& entry : entries_) {
    if (number >= entry.first && number <= entry.last()) return &entry.messages[number - entry.first];
  }
  return nullptr;
}

void Link::peer_acknowledged(std::uint64_t number, Time now) {
  number = std::min(number, first_queued() - 1);
  if (number <= peer_acknowledged_) return;
  while (!entries_.empty()) {
    Entry& entry = entries_.front();
    const std::uint64_t last = std::min(number, entry.last());
    for (std::uint64_t n = std::max(entry.first, peer_acknowledged_ + 1); n <= last; ++n) {
      --kept_messages_;
      kept_bytes_ -= entry.messages[n - entry.first].size();
    }
    if (entry.last() > number) break;
    written_trim_ = std::max(written_trim_, entry.id.next());
    ++written_trimmable_;
    set_written(entry, true);
    entries_.pop_front();
  }
  peer_acknowledged_ = number;
  probe_at_ = Time::max();
  probe_soon(now);
}

// -------------------------------------------------------------------------------------------------------------
// receiving

void Link::change_peer(std::uint64_t process, Received& result) {
  if (peer_ != 0) {
    result.replaced_process = peer_;
    retired_.push_back(peer_);
    if (retired_.size() > kMostRetired) retired_.pop_front();
  }
  peer_ = process;
  addressed_ = false;
  peer_read_ = 0;
  next_ = start_ = late_floor_ = late_next_ = late_serial_ = handled_ = told_ = resend_from_ = requested_ = 0;
  acknowledge_at_ = Time::max();
  empty_wanted_ = true;  // The answer, by which the new process learns of this one.
  // A worker ignores what is addressed to its predecessor.
  if (role_ == Role::kHost) new_ids_from(0);
}

Link::Received Link::receive(StreamId id, Frame frame, Time now) {
  Received result;
  now_ = now;
  cursor_ = std::max(cursor_, id);
  const auto done = [&] {
    seen_.push_back({id, serial_});
    return std::move(result);
  };
  if (generation_ && frame.read > *generation_ && frame.read < kMostGeneration) {
    least_generation_ = frame.read;
    generation_.reset();
    empty_wanted_ = true;
  }
  if (std::find(retired_.begin(), retired_.end(), frame.from) != retired_.end()) {
    if (role_ == Role::kWorker) {
      empty_wanted_ = true;  // It is for the newer host; the older one reads that.
    } else if (notices_.empty()) {
      tell(frame.from, NoticeKind::kSuperseded, 0, "a newer process has the name of this worker");
    }
    return done();
  }
  if (role_ == Role::kWorker && frame.from != peer_ && frame.term != 0 && frame.term < term_) {
    empty_wanted_ = true;  // Its frame tells that host of the newer term.
    return done();
  }
  if (role_ == Role::kHost && term_ != 0 && frame.term > term_) {
    result.superseded = true;
    result.newer_term = frame.term;
    return done();
  }
  if (frame.to != 0 && frame.to != process_) {
    const bool about_another = frame.notice == NoticeKind::kNone && addressed_ && frame.from == peer_;
    if (about_another && frame.read < peer_read_) return done();  // Written before the last one, and delayed.
    if (about_another) result.superseded = true;
    if (about_another || role_ == Role::kWorker) return done();
  }
  if (frame.from != peer_) {
    change_peer(frame.from, result);
    if (role_ == Role::kWorker) term_ = frame.term;
  }
  if (frame.to == process_) {
    addressed_ = true;
    peer_read_ = frame.read;
    result.notice = frame.notice;
    result.notice_number = frame.notice_number;
    result.notice_text = std::move(frame.notice_text);
    if (frame.notice == NoticeKind::kSuperseded) result.superseded = true;
    if (const std::string* refused = frame.notice == NoticeKind::kNone ? nullptr : find(frame.notice_number)) {
      result.refused = *refused;
    }
    peer_acknowledged(frame.acknowledged, now);
    if (frame.resend_from != 0 && now - resent_at_ >= kResendAgain) {
      resent_at_ = now;
      new_ids_from(frame.resend_from);
    }
    if (frame.probe) empty_wanted_ = true;
    probe_soon(now);  // It lives: pauses that became long while it was not heard would only delay the next message.
  }
  accept(frame, result);
  return done();
}

void Link::deliver(std::uint64_t number, std::string& bytes, Received& result) {
  delivered_.push_back({++serial_, number, peer_, bytes.size()});
  result.messages.push_back({serial_, number, std::move(bytes)});
}

void Link::accept(Frame& frame, Received& result) {
  if (next_ == 0) {
    if (frame.messages.empty()) {
      if (frame.first > frame.base) miss(frame.base);
      return;
    }
    start_ = next_ = std::max(frame.first, frame.base);
    late_floor_ = late_next_ = std::min(frame.base, start_);
  }
  // The sender knows that these are acknowledged, by this process or by its predecessor.
  late_next_ = std::max(late_next_, std::min(frame.base, start_));
  // A stale replica may have older frames, with which this process began; nobody keeps the messages between those and
  // these any more.
  next_ = std::max(next_, frame.base);
  std::uint64_t number = frame.first;
  for (std::string& bytes : frame.messages) {
    if (number < start_) {
      if (number >= late_next_) {
        deliver(number, bytes, result);
        late_next_ = number + 1;
        late_serial_ = serial_;
      }
    } else if (number == next_) {
      deliver(number, bytes, result);
      ++next_;
    } else if (number > next_) {
      return miss(next_);
    }
    ++number;
  }
  if (number > next_) return miss(next_);
  if (late_next_ < start_) miss(late_next_);
}

void Link::miss(std::uint64_t number) {
  if (requested_ == number && now_ - requested_at_ < kRequestAgain) return;
  resend_from_ = number;
  empty_wanted_ = true;
}

void Link::skip(StreamId id) {
  cursor_ = std::max(cursor_, id);
  seen_.push_back({id, serial_});
}

std::uint64_t Link::acknowledgement() const {
  const bool late = late_next_ < start_ || handled_serial_ < late_serial_;
  return late ? late_floor_ - 1 : handled_;
}

void Link::acknowledge(std::uint64_t serial, Time now) {
  while (!delivered_.empty() && delivered_.front().serial <= serial) {
    const Delivered& message = delivered_.front();
    if (message.process == peer_) {
      handled_ = std::max(handled_, message.number);
      untold_bytes_ += message.bytes;
    }
    handled_serial_ = message.serial;
    delivered_.pop_front();
  }
  const std::uint64_t number = acknowledgement();
  if (number <= told_) return;
  if (acknowledge_at_ == Time::max()) acknowledge_at_ = now + bounds_.acknowledge_within;
  if (number - told_ >= std::max<std::size_t>(bounds_.messages / 2, 1) || untold_bytes_ >= bounds_.bytes / 4) {
    empty_wanted_ = true;
  }
}

// -------------------------------------------------------------------------------------------------------------- the
// rest

bool Link::tick(Time now) {
  if (probe_soon_) probe_soon(now);
  if (now >= acknowledge_at_) empty_wanted_ = true;
  if (now >= probe_at_) {
    empty_wanted_ = probe_wanted_ = true;
    probe_pause_ = std::min(probe_pause_ * 2, std::max(kMostProbePause, bounds_.probe_after));
    probe_at_ = now + probe_pause_;
  }
  return wants_write();
}

bool Link::has_trim() const {
  return written_trimmable_ > 0 || (!seen_.empty() && seen_.front().serial <= handled_serial_);
}

std::optional<StreamId> Link::take_written_trim(std::size_t least) {
  if (written_trimmable_ < std::max<std::size_t>(least, 1)) return std::nullopt;
  written_trimmable_ = 0;
  return written_trim_;
}

std::optional<StreamId> Link::take_read_trim(std::size_t least) {
  const auto end =
      std::find_if(seen_.begin(), seen_.end(), [&](const Seen& entry) { return entry.serial > handled_serial_; });
  const auto count = static_cast<std::size_t>(end - seen_.begin());
  if (count < std::max<std::size_t>(least, 1)) return std::nullopt;
  const StreamId trim = seen_[count - 1].id.next();
  seen_.erase(seen_.begin(), end);
  return trim;
}

}  // namespace rota::bus
