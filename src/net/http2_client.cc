#include "net/http2_client.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/sync.h"
#include "fiber/condition.h"
#include "rota/fiber/error.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

constexpr std::size_t kReadBytes = 64U << 10;
constexpr std::chrono::seconds kPingLeast{5};

Error not_executed(Error error) { return std::move(error).with("executed", "no"); }

}  // namespace

const std::string* Http2Response::field(std::string_view name) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const HttpField& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &found->value;
}

namespace detail {

struct Http2Core {
  Http2Core(std::unique_ptr<ByteStream> the_stream, Http2ClientOptions the_options)
      : options(std::move(the_options)),
        stream(std::move(the_stream)),
        peer(stream->peer()),
        session(options.session) {}

  const Http2ClientOptions options;
  const std::unique_ptr<ByteStream> stream;
  const std::string peer;
  fiber::Event wake{};  // Set when there may be something to send, and at the end.

  sync::Mutex mutex;
  Http2Session session ROTA_GUARDED_BY(mutex);
  std::map<std::int32_t, std::shared_ptr<fiber::Condition>> waiting ROTA_GUARDED_BY(mutex);
  std::optional<Error> failure ROTA_GUARDED_BY(mutex);

  // The first error ends the connection.
  void fail(Error error) ROTA_EXCLUDES(mutex) {
    {
      const sync::MutexLock lock(mutex);
      if (failure) return;
      failure = std::move(error);
      for (const auto& [id, changed] : waiting) changed->wake_all();
    }
    stream->close();
    wake.set();
  }

  void write_loop() {
    for (;;) {
      if (!wake.wait(std::nothrow).ok()) return fail(Error{ErrorCode::kClosed, "the client of " + peer + " is closed"});
      wake.reset();  // Before the output is taken: what comes later sets it again.
      for (;;) {
        std::string bytes;
        {
          const sync::MutexLock lock(mutex);
          if (failure) return;
          bytes = session.output();
        }
        if (bytes.empty()) break;
        if (Result<void> written = stream->write_all(bytes, options.write_within); !written.ok()) {
          return fail(lost(written.error()));
        }
      }
    }
  }

  void read_loop() {
    std::vector<char> buffer(kReadBytes);
    const std::chrono::nanoseconds ping_after = std::max<std::chrono::nanoseconds>(options.ping_after, kPingLeast);
    bool pinged = false;
    for (;;) {
      Result<std::size_t> count = stream->read_some(buffer, pinged ? options.ping_within : ping_after);
      if (count.code() == ErrorCode::kDeadlineExceeded) {
        if (pinged) {
          return fail(Error{ErrorCode::kUnavailable, peer + " did not answer a ping; whether requests in flight were "
                                                            "executed is not known"});
        }
        {
          const sync::MutexLock lock(mutex);
          pinged = session.open_streams() != 0;
          if (pinged) session.ping();
        }
        wake.set();
        continue;
      }
      if (!count.ok()) return fail(lost(count.error()));
      if (*count == 0) return fail(Error{ErrorCode::kUnavailable, peer + " closed the connection"});
      pinged = false;
      Result<void> fed;
      {
        const sync::MutexLock lock(mutex);
        fed = session.receive({buffer.data(), *count});
        for (const std::int32_t id : session.take_touched()) {
          if (const auto found = waiting.find(id); found != waiting.end()) found->second->wake_all();
        }
      }
      wake.set();  // Acknowledgements and windows.
      if (!fed.ok()) return fail(fed.error());
    }
  }

  [[nodiscard]] Error lost(const Error& error) const {
    if (error.code == ErrorCode::kCancelled) return Error{ErrorCode::kClosed, "the client of " + peer + " is closed"};
    return Error{ErrorCode::kUnavailable, "the connection to " + peer + " broke: " + error.message};
  }

  Result<std::int32_t> submit(Http2Request request) ROTA_EXCLUDES(mutex) {
    std::int32_t id = 0;
    {
      const sync::MutexLock lock(mutex);
      if (failure) return not_executed(*failure);
      Result<std::int32_t> submitted = session.submit(request.path, request.fields, std::move(request.body));
      if (!submitted.ok()) return not_executed(std::move(submitted).take_error());
      id = *submitted;
      waiting.emplace(id, std::make_shared<fiber::Condition>());
    }
    wake.set();
    return id;
  }

  void forget(std::int32_t id) ROTA_EXCLUDES(mutex) {
    {
      const sync::MutexLock lock(mutex);
      session.forget(id);
      waiting.erase(id);
    }
    wake.set();
  }

  // Waits until `ready(incoming)` or the stream or the connection has ended.
  template <class Ready>
  Result<void> wait(std::int32_t id, Deadline deadline, Ready&& ready) ROTA_REQUIRES(mutex) {
    const std::shared_ptr<fiber::Condition> changed = waiting.at(id);
    for (;;) {
      Http2Incoming& incoming = *session.find(id);
      if (ready(incoming) || incoming.complete) return {};
      if (incoming.ended) {
        Error error{ErrorCode::kUnavailable, peer + " reset the request: " + incoming.reason};
        if (incoming.refused) return not_executed(std::move(error));
        return error;
      }
      if (failure) return *failure;
      Result<void> waited = deadline.never() ? changed->wait(mutex, "a response over HTTP/2")
                                             : changed->wait_until(mutex, deadline.time(), "a response over HTTP/2");
      if (waited.code() == ErrorCode::kDeadlineExceeded) {
        return Error{ErrorCode::kDeadlineExceeded, peer + " did not respond within the deadline"};
      }
      ROTA_TRY(std::move(waited));
    }
  }
};

}  // namespace detail

using detail::Http2Core;

Http2Stream::~Http2Stream() { core_->forget(id_); }

Result<std::string> Http2Stream::read(Deadline deadline) {
  std::string bytes;
  {
    const sync::MutexLock lock(core_->mutex);
    ROTA_TRY(core_->wait(id_, deadline, [](const Http2Incoming& incoming) { return !incoming.body.empty(); }));
    bytes = std::exchange(core_->session.find(id_)->body, {});
    core_->session.consume(id_, bytes.size());
  }
  core_->wake.set();
  return bytes;
}

Http2Response Http2Stream::response() {
  const sync::MutexLock lock(core_->mutex);
  const Http2Incoming& incoming = *core_->session.find(id_);
  return {incoming.status, incoming.fields, {}};
}

Http2Client::Http2Client(std::unique_ptr<ByteStream> stream, Http2ClientOptions options, fiber::Nursery& nursery)
    : core_(std::make_shared<Http2Core>(std::move(stream), std::move(options))) {
  core_->wake.set();  // The preface.
  nursery.launch([core = core_] { core->write_loop(); });
  nursery.launch([core = core_] { core->read_loop(); });
}

Http2Client::~Http2Client() { close(); }

void Http2Client::close() { core_->fail(Error{ErrorCode::kClosed, "the client of " + core_->peer + " is closed"}); }

bool Http2Client::accepts_requests() const {
  const sync::MutexLock lock(core_->mutex);
  return !core_->failure && core_->session.accepts_requests();
}

Result<Http2Response> Http2Client::call(Http2Request request, Deadline deadline) {
  ROTA_TRY_ASSIGN(const std::int32_t id, core_->submit(std::move(request)));
  Http2Response response;
  Result<void> received;
  while (received.ok()) {
    bool done = false;
    {
      const sync::MutexLock lock(core_->mutex);
      received = core_->wait(id, deadline, [](const Http2Incoming& incoming) { return !incoming.body.empty(); });
      if (!received.ok()) break;
      Http2Incoming& incoming = *core_->session.find(id);
      core_->session.consume(id, incoming.body.size());
      response.body.append(std::exchange(incoming.body, {}));
      done = incoming.complete;
      if (done) {
        response.status = incoming.status;
        response.fields = std::move(incoming.fields);
      }
    }
    if (done) break;
    if (response.body.size() > core_->options.body_bytes) {
      received = Error{ErrorCode::kTooLarge, "the response of " + core_->peer + " is larger than " +
                                                 std::to_string(core_->options.body_bytes) + " bytes"};
    }
    core_->wake.set();
  }
  core_->forget(id);
  if (!received.ok()) return std::move(received).take_error();
  return response;
}

Result<std::unique_ptr<Http2Stream>> Http2Client::open(Http2Request request) {
  ROTA_TRY_ASSIGN(const std::int32_t id, core_->submit(std::move(request)));
  return std::make_unique<Http2Stream>(core_, id);
}

}  // namespace rota::net
