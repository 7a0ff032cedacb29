// Link: the protocol between one host process and one worker process over two streams that may lose entries. Pure: no
// input or output, no clock; the ends (redis_bus.h) carry entries between it and Redis.
//
// An entry of a stream is a Frame: any number of consecutive messages, each end's messages being numbered from 1, and
// the acknowledgement of the other direction. Rules of the sender:
//   (1) A message is kept until the other end has acknowledged it. After a connection broke, every kept entry is
//   written
//       again under the same stream id: Redis refuses an id that it has, so nothing is duplicated, and accepts it if it
//       lost it (killed, restarted empty, or failed over to a stale replica, whose stream ends earlier).
//   (2) Ids are <generation>-<counter>. A generation begins with an entry under an id that Redis chooses, which is
//   above
//       every id of the stream; the generation is above that. If Redis refuses a new id, somebody else wrote into the
//       stream, and a new generation begins with all kept messages. The same happens if an entry was refused for
//       another reason (out of memory), because a later one may have been accepted; and if the other end has read
//       further than this generation, because it would not see these ids (the clock of an emptied Redis went back).
//   (3) If the other end misses messages, they are written again under new ids.
//   (4) If no acknowledgement arrives for long, an empty frame shows the number of the next message: a receiver that
//       has not seen the last ones then knows. This finds losses that broke no connection (FLUSHALL, eviction). The
//       pauses between such frames double up to a minute while nothing is heard of the other end, and begin again when
//       it is heard or the connection is new.
// Rules of the receiver:
//   (5) A message is delivered if its number is the next one; a lower number is a duplicate; a higher one is a gap: the
//       frame is ignored, and the missing messages are requested.
//   (6) A receiver without history (its process is new) begins with the first message that it sees. If the sender says
//       that older ones are not acknowledged, it requests them, delivers them when they arrive, and acknowledges
//       nothing until then. Messages below `base` are never requested: a predecessor has acknowledged them, although
//       older copies may be in the stream of a stale replica.
// From (1), (3), (4) and (5): while both processes live, every message is delivered exactly once, whatever Redis loses,
// if Redis works again at last; and in order, except for messages that were lost before the first one arrived (6). When
// a process ends, what it has not acknowledged is delivered to its successor, what it had not yet written is lost with
// it.
//
// Processes. A frame names the processes that it is from and for. A worker ignores frames for another process; if it
// was addressed before, another process has taken its name, and it is superseded. A host accepts every frame of a
// worker, so that nothing is lost when the host restarts; it is superseded if a worker that addressed it now addresses
// another host. A frame under an id that Redis chose may be written late, from a connection that broke, after the
// worker has changed to this host: it says that less of this stream was read than a later frame did, and is ignored. Of
// two processes, the one whose first frame comes later in the stream is the newer. The older one is retired: its frames
// are ignored, and it is told.
//
// Terms. A host that shares its ledger with others has a term, which its frames carry; 0: it has none. A worker ignores
// the frames of a host whose term is below the highest that it has heard, also if that host is new to it, and its own
// frames carry that highest term: a host that reads of a newer term than its own is superseded. So a leader that was
// deposed, and does not know it, cannot take a worker from its successor. A host without a term is accepted as ever.
//
// Thread safety: none; its end owns it under a lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/enum_names.h"
#include "rota/model/fields.h"
#include "rota/result.h"

namespace rota::bus {

// The id of an entry: "1731800000000-7".
struct StreamId {
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  static std::optional<StreamId> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] StreamId next() const {
    return minor == UINT64_MAX ? StreamId{major + 1, 0} : StreamId{major, minor + 1};
  }
  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

enum class NoticeKind : std::uint8_t {
  kNone,
  kSuperseded,  // A newer process has the addressee's name.
  kRefused,     // A message of the addressee could not be read.
  kMismatch,    // The same, because the addressee has another version of rota: it must end.
};
ROTA_ENUM_NAMES(NoticeKind, kMismatch, "none", "superseded", "refused", "mismatch")

struct Frame {
  std::uint64_t from = 0;          // The process that sent it.
  std::uint64_t to = 0;            // The process that it is for; 0: any.
  std::uint64_t base = 1;          // The sender has acknowledgements for every message below this number.
  std::uint64_t first = 1;         // The number of the first message; without messages, that of the next one.
  std::uint64_t acknowledged = 0;  // Messages of `to` up to this number.
  std::uint64_t resend_from = 0;   // `to` shall send its messages from this number on again; 0: nothing is missing.
  std::uint64_t read = 0;          // The first half of the newest id that the sender has read in the other stream.
  bool probe = false;              // `to` shall answer with what it has acknowledged.
  NoticeKind notice = NoticeKind::kNone;
  std::uint64_t notice_number = 0;  // kRefused, kMismatch: the message.
  std::string notice_text{};
  std::vector<std::string> messages{};
  std::uint64_t term = 0;  // A host's; of a worker, the highest that it has heard. 0: none.
  ROTA_FIELDS(from, to, base, first, acknowledged, resend_from, read, probe, notice, notice_number, notice_text,
              messages, term)
};

// An entry has the version, a checksum of the rest, and the frame. A changed byte could otherwise name another process,
// and end this one.
inline constexpr std::uint8_t kFrameVersion = 3;
inline constexpr std::size_t kFrameHeadBytes = 9;
// No honest writer reaches the first half of such an id, and after the highest one nothing could be written.
inline constexpr std::uint64_t kExhaustedId = std::uint64_t{1} << 62;
[[nodiscard]] std::string encode_frame(const Frame& frame);
// Writes version and checksum over the first bytes of an entry. REQUIRES: it has kFrameHeadBytes at least.
void seal_frame(std::string& bytes);
// kUnsupported for another version, kCorrupt for anything else.
[[nodiscard]] Result<Frame> decode_frame(std::string_view bytes);

struct LinkBounds {
  std::size_t messages = 4096;
  std::size_t bytes = std::size_t{64} << 20;
  std::chrono::nanoseconds acknowledge_within = std::chrono::seconds(1);
  std::chrono::nanoseconds probe_after = std::chrono::seconds(5);
};

class Link {
 public:
  using Time = std::chrono::nanoseconds;
  enum class Role : std::uint8_t { kHost, kWorker };
  // `term`: of a host; 0: none.
  Link(Role role, std::uint64_t process, LinkBounds bounds, std::uint64_t term = 0)
      : role_(role), process_(process), bounds_(bounds), term_(term) {}

  // ------------------------------------------------------------------------------------------------------- sending
  // Messages for live views, which may be lost, leave an eighth of the room to the others, so that a flood of them
  // never delays a heartbeat or the end of a task.
  enum class Weight : std::uint8_t { kMinor, kMajor };
  // A single message always fits into an empty link.
  [[nodiscard]] bool has_room(std::size_t message_bytes, Weight weight = Weight::kMajor) const;
  void push(std::string message, Time now);
  [[nodiscard]] std::size_t unacknowledged() const { return kept_messages_; }
  // Everything sent is in Redis.
  [[nodiscard]] bool is_flushed() const;

  struct Write {
    std::string id;  // "*": chosen by Redis.
    std::string bytes;
  };
  // What to write now, in order; nothing while the results of the previous writes are not known.
  // REQUIRES: every result of the previous call was given, or connection_lost() was called.
  [[nodiscard]] std::vector<Write> take_writes(Time now, std::size_t most_bytes);
  [[nodiscard]] bool wants_write() const;
  enum class WriteResult : std::uint8_t { kWritten, kIdTooLow, kRefused };
  // The result of each write, in order. `id`: the entry's, if it was written.
  void written(WriteResult result, StreamId id);
  // The results of the last writes are unknown, and Redis may have lost everything.
  void connection_lost();
  // An empty frame is written soon, so that the other end hears of this process.
  void greet() { empty_wanted_ = true; }
  // The same, and the other end is asked for an answer.
  void probe() { empty_wanted_ = probe_wanted_ = true; }
  void tell(std::uint64_t process, NoticeKind kind, std::uint64_t number, std::string text);
  // The bytes of a message that is not acknowledged, or null.
  [[nodiscard]] const std::string* find(std::uint64_t number) const;

  // ----------------------------------------------------------------------------------------------------- receiving
  struct Received {
    struct Message {
      std::uint64_t serial = 0;  // For acknowledge(): counts what this link delivered.
      std::uint64_t number = 0;
      std::string bytes{};
    };
    std::vector<Message> messages{};
    bool superseded = false;                // This process must end.
    std::uint64_t newer_term = 0;           // Superseded, because the worker has heard of this term.
    std::uint64_t replaced_process = 0;     // The peer's process before this frame; 0: no change.
    NoticeKind notice = NoticeKind::kNone;  // For this process.
    std::uint64_t notice_number = 0;
    std::string notice_text{};
    std::string refused{};  // The message of this process that `notice` is about, if it is kept.
  };
  [[nodiscard]] Received receive(StreamId id, Frame frame, Time now);
  // An entry that is not a frame: only its id counts.
  void skip(StreamId id);
  // Everything delivered up to this serial is handled. Lower serials than before change nothing.
  void acknowledge(std::uint64_t serial, Time now);
  // Where to read on.
  [[nodiscard]] StreamId cursor() const { return cursor_; }
  // The stream that it reads was removed: its ids may begin anywhere.
  void forget_cursor() { cursor_ = {}; }

  // ------------------------------------------------------------------------------------------------------- the rest
  // Decides whether an acknowledgement or a probe is due. True: wants_write().
  bool tick(Time now);
  // True if the last tick found a probe due: the other end may not know of this process.
  [[nodiscard]] bool is_probing() const { return probe_pause_ > bounds_.probe_after; }
  [[nodiscard]] std::uint64_t peer() const { return peer_; }
  // Some entries of either stream are not needed any more.
  [[nodiscard]] bool has_trim() const;
  // Entries below this id are not needed any more: of the stream that it writes, and of the one that it reads.
  // Nothing if fewer than `least` entries would be removed.
  [[nodiscard]] std::optional<StreamId> take_written_trim(std::size_t least);
  [[nodiscard]] std::optional<StreamId> take_read_trim(std::size_t least);

 private:
  struct Entry {
    StreamId id{};
    std::uint64_t first = 0;
    std::vector<std::string> messages{};
    bool attempted = false;  // Redis may have it under this id.
    bool written = false;    // Redis confirmed it on this connection.
    [[nodiscard]] std::uint64_t last() const { return first + messages.size() - 1; }
  };
  struct Notice {
    std::uint64_t to = 0;
    NoticeKind kind = NoticeKind::kNone;
    std::uint64_t number = 0;
    std::string text{};
  };
  struct Pending {
    enum class Kind : std::uint8_t { kOpen, kEntry, kEmpty };
    Kind kind = Kind::kOpen;
    StreamId id{};
    bool retry = false;
  };
  struct Delivered {
    std::uint64_t serial = 0;
    std::uint64_t number = 0;
    std::uint64_t process = 0;
    std::size_t bytes = 0;
  };

  [[nodiscard]] Frame header(std::uint64_t to, Time now);
  void add_write(std::vector<Write>& writes, const Frame& frame, Pending pending);
  void set_written(Entry& entry, bool written);
  [[nodiscard]] std::uint64_t first_queued() const { return next_number_ - queued_.size(); }
  [[nodiscard]] bool may_write_messages() const { return role_ == Role::kWorker || peer_ != 0; }
  [[nodiscard]] StreamId next_id() { return {*generation_, ++counter_}; }
  void new_ids_from(std::uint64_t number);
  void begin_generation(StreamId opened);
  void peer_acknowledged(std::uint64_t number, Time now);
  // Pauses between probes begin again with the shortest one.
  void probe_soon(Time now);
  void change_peer(std::uint64_t process, Received& result);
  void accept(Frame& frame, Received& result);
  void miss(std::uint64_t number);
  [[nodiscard]] std::uint64_t acknowledgement() const;
  void deliver(std::uint64_t number, std::string& bytes, Received& result);

  const Role role_;
  const std::uint64_t process_;
  const LinkBounds bounds_;
  std::uint64_t term_;                   // A host's own; of a worker, the highest that it has heard.
  std::uint64_t peer_ = 0;               // The other end's process; 0: none heard of.
  bool addressed_ = false;               // The peer has addressed this process.
  std::uint64_t peer_read_ = 0;          // Frame::read when it did so last.
  std::deque<std::uint64_t> retired_{};  // Former processes of the other end.

  // Sending.
  std::optional<std::uint64_t> generation_{};
  std::uint64_t least_generation_ = 0;
  std::uint64_t counter_ = 0;
  std::deque<Entry> entries_{};       // Messages with an id, oldest first.
  std::deque<std::string> queued_{};  // Messages without one.
  std::uint64_t next_number_ = 1;     // Of the next message that is pushed.
  std::uint64_t peer_acknowledged_ = 0;
  std::size_t kept_messages_ = 0;
  std::size_t kept_bytes_ = 0;
  std::size_t to_write_ = 0;  // Entries that are not written.
  std::deque<Notice> notices_{};
  bool empty_wanted_ = false;
  bool probe_wanted_ = false;
  std::deque<Pending> pending_{};  // Writes whose result is unknown.
  bool reopen_ = false;            // One of the results makes a new generation necessary.
  StreamId written_trim_{};
  std::size_t written_trimmable_ = 0;
  Time resent_at_ = std::chrono::seconds(-1);
  Time probe_at_ = Time::max();
  Time probe_pause_{};
  bool probe_soon_ = false;  // At the next tick: the connection is new.

  // Receiving. Of the peer's messages, those in [start_, next_) were delivered, and those in [late_floor_, late_next_).
  // Those in [late_next_, start_) are missing.
  StreamId cursor_{};
  std::uint64_t next_ = 0;  // 0: nothing received from this peer.
  std::uint64_t start_ = 0;
  std::uint64_t late_floor_ = 0;
  std::uint64_t late_next_ = 0;
  std::uint64_t late_serial_ = 0;  // Of the last message that was delivered late.
  std::uint64_t serial_ = 0;
  std::uint64_t handled_serial_ = 0;
  std::deque<Delivered> delivered_{};  // Not handled yet.
  std::uint64_t handled_ = 0;          // The highest number of this peer that is handled.
  std::uint64_t told_ = 0;             // The acknowledgement that the last frame had.
  std::size_t untold_bytes_ = 0;
  std::uint64_t resend_from_ = 0;
  std::uint64_t requested_ = 0;  // The last resend_from that was sent.
  Time requested_at_{};
  Time now_{};  // Of the frame being received.
  Time acknowledge_at_ = Time::max();
  struct Seen {
    StreamId id;
    std::uint64_t serial;
  };
  std::deque<Seen> seen_{};  // Entries that may be removed when everything up to `serial` is handled.
};

}  // namespace rota::bus
