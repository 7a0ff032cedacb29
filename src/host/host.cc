#include "host/host.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/sync.h"
#include "host/batch.h"
#include "host/follower.h"
#include "host/leader.h"
#include "host/recovery.h"
#include "ledger/replicated_ledger.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::host {

using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds kTailRetry = std::chrono::milliseconds(200);  // While the replicated ledger cannot be read.
constexpr nanoseconds kTailLook = std::chrono::seconds(1);
constexpr nanoseconds kStandBack = std::chrono::seconds(5);  // After a term that ended because the store was full.

// What ends a term, and not the host.
bool ends_term(ErrorCode code) {
  return code == ErrorCode::kNotLeader || code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded ||
         code == ErrorCode::kNoSpace || code == ErrorCode::kClosed;
}

}  // namespace

struct Host::Body {
  Body(ledger::Ledger& the_ledger, std::vector<bus::HostEnd*> the_buses, HostOptions the_options,
       HostObserver* the_observer)
      : ledger(the_ledger), buses(std::move(the_buses)), options(std::move(the_options)), observer(the_observer) {
    if (options.follow) {
      follower = std::make_unique<Follower>(ledger, Follower::Options{.snapshot_every = options.snapshot_every,
                                                                      .compact = options.compact,
                                                                      .replicated = options.replica != nullptr});
    }
    if (options.replica == nullptr) leader = make_leader(buses);
    ROTA_ASSERT(options.replica == nullptr ||
                    (options.follow && options.open_buses && options.close_buses && !options.ends_with_host &&
                     options.await_workers == 0 && options.registration_order.empty()),
                "these options do not go with a replicated ledger");
  }

  ledger::Ledger& ledger;
  const std::vector<bus::HostEnd*> buses;
  const HostOptions options;
  HostObserver* const observer;
  std::unique_ptr<Follower> follower;
  TimeHistogram decision_times{};

  mutable sync::Mutex mutex;
  bool ran ROTA_GUARDED_BY(mutex) = false;
  bool stopping ROTA_GUARDED_BY(mutex) = false;
  std::shared_ptr<Leader> leader ROTA_GUARDED_BY(mutex);  // Null: this host does not lead.
  // Waits for the leadership; null: nothing does.
  fiber::Task<void>* campaign ROTA_GUARDED_BY(mutex) = nullptr;
  Result<void> failure ROTA_GUARDED_BY(mutex);  // Of the follower.

  [[nodiscard]] std::shared_ptr<Leader> make_leader(const std::vector<bus::HostEnd*>& on) {
    return std::make_shared<Leader>(ledger, on, options, observer, follower.get(), decision_times);
  }
  [[nodiscard]] std::shared_ptr<Leader> current() const {
    const sync::MutexLock lock(mutex);
    return leader;
  }
  // The error of a client whose input nobody takes.
  [[nodiscard]] Error refusal() const {
    if (options.replica == nullptr) return Error{ErrorCode::kClosed, "the host has stopped"};
    return options.replica->not_leader();
  }
  void stop();
  Result<fleet::Events> ask(Input input, const std::shared_ptr<Answer::Place>& place);
  Result<void> run();
  Result<void> show();
  Result<void> replicate();
  Result<void> take_turns(fiber::Nursery& scope);
  Result<std::uint64_t> await_leadership(fiber::Nursery& scope, bool follow_first);
  Result<void> lead(std::uint64_t term);
  void tail();
};

Host::Host(ledger::Ledger& ledger, bus::HostEnd& bus, HostOptions options, HostObserver* observer)
    : Host(ledger, std::vector<bus::HostEnd*>{&bus}, std::move(options), observer) {}

Host::Host(ledger::Ledger& ledger, std::vector<bus::HostEnd*> buses, HostOptions options, HostObserver* observer)
    : body_(std::make_unique<Body>(ledger, std::move(buses), std::move(options), observer)) {}
Host::~Host() = default;

Result<void> Host::run() {
  {
    const sync::MutexLock lock(body_->mutex);
    if (std::exchange(body_->ran, true)) return Error{ErrorCode::kFailedPrecondition, "this host has run already"};
  }
  Result<void> result = body_->run();
  // Clients whose commands were not executed get Closed when their inputs are destroyed.
  if (const std::shared_ptr<Leader> leader = body_->current()) leader->discard();
  return result;
}

void Host::stop() { body_->stop(); }

void Host::Body::stop() {
  const sync::MutexLock lock(mutex);
  stopping = true;
  if (leader != nullptr) leader->stop();
  if (campaign != nullptr) campaign->cancel();
}

Follower& Host::follower() {
  ROTA_ASSERT(body_->follower != nullptr, "HostOptions::follow is not set");
  return *body_->follower;
}

std::uint64_t Host::durable_index() const { return body_->ledger.last_index(); }

bool Host::is_read_only() const { return body_->options.read_only; }

TimeHistogram::Reading Host::decision_times() const { return body_->decision_times.read(); }

Result<void> Host::check_leads() const {
  const ledger::ReplicatedLedger* replica = body_->options.replica;
  if (replica == nullptr) return {};
  // Without its lease this host is deposed or cut off from etcd: clients that know other hosts should ask these.
  if (body_->current() != nullptr && replica->holds_lease()) return {};
  return body_->refusal();
}

Result<void> Host::check_writable() const { return body_->ledger.check_writable(); }

std::string Host::leader_url() const {
  return body_->options.replica == nullptr ? std::string() : body_->options.replica->leader();
}

Result<fleet::Events> Host::execute(fleet::Command command, fleet::Origin origin) {
  if (is_read_only()) return Error{ErrorCode::kFailedPrecondition, "this shows a log: there is no host to control"};
  auto place = std::make_shared<Answer::Place>();
  return body_->ask(Input{.what = std::move(command), .answer = Answer(place), .origin = std::move(origin)}, place);
}

Result<void> Host::inspect(std::function<void(const fleet::State&)> look) {
  auto place = std::make_shared<Answer::Place>();
  ROTA_TRY(body_->ask(Input{Inspection{std::move(look), true}, Answer(place)}, place));
  return {};
}

Result<void> Host::peek(std::function<void(const fleet::State&)> look) {
  auto place = std::make_shared<Answer::Place>();
  ROTA_TRY(body_->ask(Input{Inspection{std::move(look), false}, Answer(place)}, place));
  return {};
}

Result<fleet::Events> Host::Body::ask(Input input, const std::shared_ptr<Answer::Place>& place) {
  const std::shared_ptr<Leader> leads = current();
  if (leads == nullptr) return refusal();
  try {
    if (!leads->take(std::move(input))) return refusal();
    ROTA_TRY(place->done.wait(std::nothrow));
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  // Deposed before it answered: the next leader knows whether the command was executed.
  const ErrorCode code = place->result.code();
  if (options.replica != nullptr && (code == ErrorCode::kClosed || code == ErrorCode::kNotLeader)) return refusal();
  return std::move(place->result);
}

// --------------------------------------------------------------------------------------------------------------- run

// Follows the ledger until stop().
Result<void> Host::Body::show() {
  const std::shared_ptr<Leader> inputs = current();
  Result<void> followed;
  try {
    fiber::with_scope([&](fiber::Nursery& scope) {
      fiber::Task<Result<void>> following = scope.spawn([this, &inputs] {
        Result<void> ended = follower->run();
        inputs->stop();
        return ended;
      });
      inputs->wait_for_stop();
      follower->close();
      followed = following.get();
    });
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  return followed;
}

Result<void> Host::Body::run() {
  if (options.read_only) return show();
  // A policy that the brain refuses is an error here, and not a line in a log while another one stays in force (B-24).
  if (options.policy) ROTA_TRY(fleet::check_policy(*options.policy));
  if (options.replica != nullptr) return replicate();
  ROTA_TRY_ASSIGN(Recovered recovered, recover(ledger));
  return current()->run(std::move(recovered), std::nullopt);
}

// ------------------------------------------------------------------------------------------------------ several hosts

Result<void> Host::Body::replicate() {
  Result<void> outcome;
  try {
    fiber::with_scope([&](fiber::Nursery& scope) {
      scope.launch([this] {
        // A state that does not follow from the log: this host must not lead.
        if (Result<void> followed = follower->run(); !followed.ok() && followed.code() != ErrorCode::kCancelled) {
          {
            const sync::MutexLock lock(mutex);
            failure = std::move(followed);
          }
          stop();
        }
      });
      scope.launch([this] { follower->save(); });
      outcome = take_turns(scope);
      follower->close();
    });
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  const sync::MutexLock lock(mutex);
  return failure.ok() ? std::move(outcome) : std::move(failure);
}

// Follows and leads, by turns, until stop().
Result<void> Host::Body::take_turns(fiber::Nursery& scope) {
  for (bool led = false;; led = true) {
    Result<std::uint64_t> term = await_leadership(scope, led);
    {
      const sync::MutexLock lock(mutex);
      if (stopping) return {};
    }
    if (!term.ok()) return std::move(term).take_error();
    Result<void> ended = lead(*term);
    {
      const sync::MutexLock lock(mutex);
      if (stopping && ended.ok()) return {};
    }
    if (ended.ok()) continue;  // It could not begin.
    if (!ends_term(ended.code())) return ended;
    ROTA_LOG(kWarn, "this host does not lead any more, and follows", {"term", *term}, {"why", ended.error().message});
    if (const std::string* newer = ended.error().detail("newer_term")) {
      // If this host still leads, its workers know terms that the log has lost: it goes beyond them.
      if (options.replica->raise_terms(std::stoull(*newer)).ok()) {
        ROTA_LOG(kError, "the workers know a newer term than the log; was it restored from a backup?",
                 {"newer_term", *newer});
      }
    }
    if (ended.code() == ErrorCode::kNoSpace && !fiber::sleep_for(kStandBack).ok()) return ErrorCode::kCancelled;
  }
}

Result<std::uint64_t> Host::Body::await_leadership(fiber::Nursery& scope, bool follow_first) {
  fiber::Task<void> tailing = scope.spawn([this] { tail(); });
  // Shared, because the campaign may outlive a wait that is cancelled.
  auto outcome = std::make_shared<Result<std::uint64_t>>(ErrorCode::kCancelled);
  fiber::Task<void> campaigning = scope.spawn([this, follow_first, outcome] {
    Result<void> follows;
    if (follow_first) follows = options.replica->follow();
    *outcome = follows.ok() ? options.replica->lead() : std::move(follows).take_error();
  });
  {
    const sync::MutexLock lock(mutex);
    campaign = &campaigning;
    if (stopping) campaigning.cancel();
  }
  const bool completed = campaigning.wait(std::nothrow).ok();
  {
    const sync::MutexLock lock(mutex);
    campaign = nullptr;
  }
  if (!completed) campaigning.cancel();
  Result<std::uint64_t> term = ErrorCode::kCancelled;
  if (completed) term = std::move(*outcome);
  // Every record is applied before anything is decided.
  while (term.ok()) {
    const Result<void> reached = follower->wait_for(ledger.last_index(), kTailLook);
    if (reached.ok()) break;
    if (reached.code() != ErrorCode::kTimeout) term = reached.error();
  }
  tailing.cancel();
  (void)tailing.wait(std::nothrow);
  return term;
}

// Tells the follower of records that another host has written.
void Host::Body::tail() try {
  for (;;) {
    const std::uint64_t seen = follower->index();
    const Result<void> more = options.replica->wait_beyond(seen);
    if (more.code() == ErrorCode::kCancelled) return;
    if (more.ok()) {
      follower->read_on();
      const Result<void> reached = follower->wait_for(seen + 1, kTailLook);
      if (reached.code() == ErrorCode::kCancelled || reached.code() == ErrorCode::kClosed) return;
    } else if (!fiber::sleep_for(kTailRetry).ok()) {
      return;
    }
  }
} catch (const fiber::Cancelled&) {
}

// One term. Ok: stop() was called, or the term was too low and another campaign is needed.
Result<void> Host::Body::lead(std::uint64_t term) {
  ROTA_TRY_ASSIGN(Recovered recovered, follower->copy());
  if (recovered.position.index != ledger.last_index()) {
    return Error{ErrorCode::kCorrupt, "the state is that of record " + std::to_string(recovered.position.index) +
                                          ", but the log ends with " + std::to_string(ledger.last_index())};
  }
  if (recovered.position.term.value() >= term) {
    // The log comes from a store with higher terms.
    ROTA_TRY(options.replica->raise_terms(recovered.position.term.value()));
    return {};
  }
  ROTA_LOG(kInfo, "leading", {"term", term}, {"record", recovered.position.index},
           {"state", recovered.brain.hash().to_string()});
  ROTA_TRY_ASSIGN(const std::vector<bus::HostEnd*> opened, options.open_buses(term));
  follower->set_saving(true);
  const std::shared_ptr<Leader> own = make_leader(opened);
  {
    const sync::MutexLock lock(mutex);
    leader = own;
    if (stopping) own->stop();
  }
  Result<void> ended = own->run(std::move(recovered), model::Term(term));
  {
    const sync::MutexLock lock(mutex);
    leader = nullptr;
  }
  own->discard();
  follower->set_saving(false);
  options.close_buses();
  return ended;
}

}  // namespace rota::host
