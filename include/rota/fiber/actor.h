// Actors: state behind a mailbox, restarted after a failure (F-27).
//
//   struct Counter {
//     int count = 0;
//     void receive(std::variant<Add, Get> message);        // one message at a time
//   };
//   with_actors({.max_restarts = 3, .window = 1s}, [](ActorSupervisor& actors) {
//     Actor<Message> counter = actors.start<Message>("counter", [] { return Counter(); });
//     (void)counter.tell(Add{5});
//     Result<int> count = counter.ask<int>([](Reply<int> reply) { return Get{std::move(reply)}; }, 100ms);
//   });                                                    // drains the mailboxes, then stops the actors
//
// An actor is a task that receives messages from a channel, its mailbox, one at a time. A factory creates its state at
// each start. When the handler or the factory throws, or its stack overflows, the supervisor acts as its options say:
// it restarts that actor, or all of them, or gives up. The mailbox is kept; only the message that was being handled is
// lost. (After an overflow nothing is destroyed, so a Reply in that message stays open until its limit.) After more
// than `max_restarts` within `window` of the runtime's clock the supervisor gives up: it stops all its actors and fails
// with ResourceExhausted, which names the actor and its last failure. If restarts are off, it fails with the actor's
// exception. In both cases the supervisor fails as a child of the nursery around it, which cancels the other children.
//
// An actor that has run out of budget is recharged by its supervisor, from the pool of the surrounding nursery, or
// treated as failed.
//
// Structured concurrency: a supervisor lives in a nursery. No actor outlives it; cancelling the nursery cancels them.
//
// Profiles: `cluster` is made for actors. In `service` and `sovereign` they work the same, with the budgets and, in
// `sovereign`, the capabilities (CapSpawn, CapChannel) that tasks and channels need there. In `open` nothing is
// metered, so nothing is recharged. In `core` starting an actor is an error, like spawning.
//
// Thread safety: an Actor handle may be copied and used from any task; try_tell(), stop() and restarts() from any
// thread.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"

namespace rota::fiber {

enum class OnFailure : std::uint8_t {
  kRestart,     // Restarts the actor that failed.
  kRestartAll,  // Restarts all actors of the supervisor, because they depend on each other's state.
  kGiveUp,
};
enum class OnActorExhausted : std::uint8_t {
  kRecharge,  // It gets `recharge` and continues. If the pool does not have that much, it fails.
  kFail,      // It fails with BudgetExhausted.
};
enum class StopMode : std::uint8_t {
  kDrain,  // The messages in the mailbox are handled first.
  kDrop,   // The messages in the mailbox are dropped, and a waiting handler is cancelled.
};

struct ActorOptions {
  OnFailure on_failure = OnFailure::kRestart;
  OnActorExhausted on_exhausted = OnActorExhausted::kRecharge;
  std::uint32_t max_restarts = 5;  // For all actors of the supervisor together, within `window`.
  std::chrono::nanoseconds window = std::chrono::seconds(10);
  Budget recharge{.ops = 10'000, .memory = 64 * 1024, .spawn_count = 16, .channel_ops = 1'000, .syscalls = 1'000};
};

struct MailboxOptions {
  std::size_t capacity = 64;     // When the mailbox is full, tell() waits.
  std::optional<Grant> grant{};  // For the actor's task.
};

namespace detail {

struct SupervisorCore;

// An actor, independent of its type.
struct ActorCell {
  explicit ActorCell(std::string actor_name) : name(std::move(actor_name)) {}
  virtual ~ActorCell() = default;
  ActorCell(const ActorCell&) = delete;
  ActorCell& operator=(const ActorCell&) = delete;

  // One run in the actor's task: creates the state, handles messages until the mailbox is closed and drained.
  virtual void live() = 0;
  virtual void close() = 0;
  // Drops the messages in the mailbox.
  virtual void discard() = 0;

  const std::string name;
  std::optional<Grant> grant;
  std::shared_ptr<SupervisorCore> supervisor;  // It drops its references to actors when it ends.
  sync::Atomic<std::uint64_t> restarts{0};
  sync::Atomic<std::uint64_t> recharges{0};
  // Used only by the supervisor's task.
  Task<void> task;
  std::uint64_t life = 0;  // Number of starts.
  bool running = false;
  bool stopping = false;  // It is to be removed.
};

template <class Behaviour, class Message>
concept HasReceive = requires(Behaviour& behaviour, Message message) { behaviour.receive(std::move(message)); };

template <class Message>
struct Mailbox : ActorCell {
  Mailbox(std::string actor_name, std::size_t capacity) : ActorCell(std::move(actor_name)), channel(capacity) {}
  void close() override { channel.close(); }
  void discard() override {
    while (channel.try_receive().ok()) {
    }
  }
  Channel<Message> channel;
};

template <class Message, class Factory>
struct TypedActor final : Mailbox<Message> {
  TypedActor(std::string actor_name, std::size_t capacity, Factory f)
      : Mailbox<Message>(std::move(actor_name), capacity), factory(std::move(f)) {}
  void live() override {
    auto behaviour = factory();
    while (std::optional<Message> message = this->channel.receive()) {
      if constexpr (HasReceive<decltype(behaviour), Message>) {
        behaviour.receive(std::move(*message));
      } else {
        std::invoke(behaviour, std::move(*message));
      }
    }
  }
  Factory factory;
};

std::shared_ptr<SupervisorCore> start_supervisor(Nursery& nursery, const ActorOptions& options);
// Throws Closed if the supervisor has stopped.
void start_actor(const std::shared_ptr<SupervisorCore>& core, std::shared_ptr<ActorCell> cell);
void stop_actor(const std::shared_ptr<ActorCell>& cell, StopMode mode);
// Waits for the end if `wait`.
void stop_supervisor(const std::shared_ptr<SupervisorCore>& core, StopMode mode, bool wait);
// Throws the error with which the supervisor gave up, if it did.
void throw_if_gave_up(const std::shared_ptr<SupervisorCore>& core);

}  // namespace detail

// Receives the answer to a question, once. If it is destroyed without an answer, the asker gets an error.
template <class Answer>
class Reply {
 public:
  explicit Reply(Channel<Answer> to) : to_(std::move(to)) {}
  Reply(Reply&& other) noexcept : to_(std::exchange(other.to_, std::nullopt)) {}
  Reply& operator=(Reply&& other) noexcept {
    std::swap(to_, other.to_);
    return *this;
  }
  ~Reply() {
    if (to_) to_->close();
  }
  // False if nobody waits for the answer any more, or it was already given.
  bool send(Answer answer) {
    if (!to_) return false;
    const Channel<Answer> to = *std::exchange(to_, std::nullopt);
    const bool sent = to.try_send(std::move(answer)).ok();
    to.close();
    return sent;
  }

 private:
  std::optional<Channel<Answer>> to_;
};

// The address of an actor. Copies refer to the same actor; a handle keeps the mailbox alive, not the actor.
template <class Message>
class Actor {
 public:
  explicit Actor(std::shared_ptr<detail::Mailbox<Message>> mailbox) : mailbox_(std::move(mailbox)) {}

  // Waits while the mailbox is full. False if the actor has stopped; the caller then still has the message. Throws
  // Cancelled.
  [[nodiscard]] bool tell(Message&& message) const { return mailbox_->channel.send(std::move(message)); }
  [[nodiscard]] bool tell(const Message& message) const
    requires std::is_copy_constructible_v<Message>
  {
    return mailbox_->channel.send(message);
  }
  // WouldBlock if the mailbox is full, Closed if the actor has stopped.
  Result<void> try_tell(Message message) const { return mailbox_->channel.try_send(std::move(message)); }
  Result<void> tell_for(Message message, std::chrono::nanoseconds limit) const {
    return mailbox_->channel.send_for(std::move(message), limit);
  }

  // Sends make(Reply<Answer>) and waits for the answer, for `limit` in total. Errors: Timeout; Closed if the actor has
  // stopped, failed at this message, or dropped the question.
  template <class Answer, class Make>
    requires std::convertible_to<std::invoke_result_t<Make&, Reply<Answer>>, Message>
  Result<Answer> ask(Make make, std::chrono::nanoseconds limit) const {
    const Channel<Answer> answer(1);
    const struct Refuse {  // However this ends: an answer that comes later goes nowhere, and Reply::send() says so.
      const Channel<Answer>& late;
      ~Refuse() { late.close(); }
    } refuse{answer};
    const std::chrono::nanoseconds start = now();
    ROTA_TRY(tell_for(Message(make(Reply<Answer>(answer))), limit));
    const std::chrono::nanoseconds spent = now() - start;
    return answer.receive_for(limit > spent ? limit - spent : std::chrono::nanoseconds(0));
  }

  // Closes the mailbox, and the actor ends. Does not wait.
  void stop(StopMode mode = StopMode::kDrain) const { detail::stop_actor(mailbox_, mode); }
  [[nodiscard]] const std::string& name() const { return mailbox_->name; }
  [[nodiscard]] std::uint64_t restarts() const { return mailbox_->restarts.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t recharges() const { return mailbox_->recharges.load(std::memory_order_relaxed); }
  // The channel of its mailbox, for select(). A message that another task receives from it does not reach the actor.
  [[nodiscard]] const Channel<Message>& mailbox() const { return mailbox_->channel; }

 private:
  std::shared_ptr<detail::Mailbox<Message>> mailbox_;
};

// Starts and supervises actors. Prefer with_actors().
class ActorSupervisor {
 public:
  // The supervisor runs as a task of `nursery`.
  ActorSupervisor(Nursery& nursery, const ActorOptions& options) : core_(detail::start_supervisor(nursery, options)) {}
  // Drops the messages that are left; the nursery waits for the actors' end.
  ~ActorSupervisor() { detail::stop_supervisor(core_, StopMode::kDrop, false); }
  ActorSupervisor(const ActorSupervisor&) = delete;
  ActorSupervisor& operator=(const ActorSupervisor&) = delete;

  // Starts an actor. `factory()` creates its state, in the actor's task, at each start: an object with
  // receive(Message), or one that can be called with a message. Throws Closed after stop(), CapabilityDenied.
  template <class Message, class Factory>
  Actor<Message> start(std::string name, Factory factory, MailboxOptions options = {}) {
    using Behaviour = std::invoke_result_t<Factory&>;
    static_assert(detail::HasReceive<Behaviour, Message> || std::is_invocable_v<Behaviour&, Message>,
                  "an actor's state has receive(Message), or can be called with a Message");
    auto cell =
        std::make_shared<detail::TypedActor<Message, Factory>>(std::move(name), options.capacity, std::move(factory));
    cell->grant = std::move(options.grant);
    detail::start_actor(core_, cell);
    return Actor<Message>(std::move(cell));
  }

  // Stops all actors and waits for their end.
  void stop(StopMode mode = StopMode::kDrain) { detail::stop_supervisor(core_, mode, true); }

  // For with_actors().
  [[nodiscard]] const std::shared_ptr<detail::SupervisorCore>& core() const { return core_; }

 private:
  std::shared_ptr<detail::SupervisorCore> core_;
};

// Opens a nursery with a supervisor, runs body(supervisor), drains and stops the actors, and returns the body's result.
// If the body throws, the actors are cancelled; if the supervisor gives up, the body is cancelled and that failure is
// thrown.
template <class F>
auto with_actors(const ActorOptions& options, F&& body) -> std::invoke_result_t<F, ActorSupervisor&> {
  using T = std::invoke_result_t<F, ActorSupervisor&>;
  std::shared_ptr<detail::SupervisorCore> core;
  try {
    return with_scope([&](Nursery& nursery) -> T {
      ActorSupervisor supervisor(nursery, options);
      core = supervisor.core();
      if constexpr (std::is_void_v<T>) {
        std::forward<F>(body)(supervisor);
        supervisor.stop();
      } else {
        T value = std::forward<F>(body)(supervisor);
        supervisor.stop();
        return value;
      }
    });
  } catch (const Cancelled&) {  // Not the cause if the supervisor gave up.
    detail::throw_if_gave_up(core);
    throw;
  }
}

}  // namespace rota::fiber
