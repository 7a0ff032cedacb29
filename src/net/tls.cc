// TLS streams: OpenSSL over a BIO pair, fed and drained by the tasks that read and write.
//
// OpenSSL never sees a descriptor and never waits. It reads and writes one half of a BIO pair, a ring of 32 KiB in each
// direction; the tasks move bytes between the other half and the inner stream. Every SSL_* call is made under `mutex`,
// with ERR_clear_error() before it and SSL_get_error() after it, and no task parks while it holds the mutex: OpenSSL's
// error queue belongs to the thread, and a task that parks may continue on another one.
//
// Who does what:
//   - The reader, or the task that drives the handshake, consumes input: it alone calls fill() and the SSL_* functions
//   that
//     read. So the free part of the input ring, into which the inner stream reads without the mutex, stays where it is.
//   - Whoever has `flushing` moves output to the inner stream. The unsent part of the output ring stays where it is
//   while
//     the inner stream writes it without the mutex: others only append behind it.
//
// Invariants:
//   (1) SSL_write is called only when the output ring has room for a whole record. So it never leaves a record half
//       written, and a reader that must write (the answer to a key update) never meets the rest of one, which OpenSSL
//       refuses.
//   (2) The reader does not wait for output to leave, except when the ring is full: otherwise two ends that both answer
//       instead of reading could wait for each other. The answer to a key update must only be sent before the next
//       application data (RFC 8446, 4.6.3), and it is, because it is in the ring before them.
//   (3) After a failure of OpenSSL no SSL_* function is called any more: `broken` is returned instead.
//   (4) handshake_done implies that no function reads input but the reader's.
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "fiber/condition.h"
#include "net/stream_error.h"
#include "net/tls_openssl.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

constexpr std::size_t kPairBytes = 32 << 10;
constexpr std::size_t kRecordBytes = 16 << 10;
// The largest record with its overhead, and some for a key update and an alert.
constexpr std::size_t kRecordRoom = kRecordBytes + 256 + 5 + 1024;
static_assert(kRecordRoom < kPairBytes);
// How long a failing end tries to tell its peer the reason.
constexpr std::chrono::milliseconds kAlertLimit(100);

constexpr const char* kWaits = "another task's part of a TLS connection";

}  // namespace

struct TlsStream::Engine {
  // One call of OpenSSL.
  struct Call {
    int result = 0;
    int status = SSL_ERROR_NONE;  // SSL_ERROR_...
    OpensslError error{};         // If the status is SSL_ERROR_SSL or SSL_ERROR_SYSCALL.
  };

  std::unique_ptr<ByteStream> inner{};
  std::shared_ptr<TlsContext::Loaded> loaded{};
  std::string peer_name{};
  std::string server_name{};  // That the certificate must have; empty for a server.
  std::chrono::nanoseconds handshake_by{};
  sync::Atomic<bool> handshake_done{false};

  sync::Mutex mutex{};
  fiber::Condition changed{};  // One of the flags below.
  Owned<SSL> ssl ROTA_GUARDED_BY(mutex){};
  Owned<BIO> network ROTA_GUARDED_BY(mutex){};  // Our half of the pair; the other half belongs to `ssl`.
  TlsRefusal refusal ROTA_GUARDED_BY(mutex){};
  TlsPeer peer ROTA_GUARDED_BY(mutex){};
  std::uint64_t records ROTA_GUARDED_BY(mutex) = 0;  // Written with the present keys.
  bool closed ROTA_GUARDED_BY(mutex) = false;
  bool handshaking ROTA_GUARDED_BY(mutex) = false;
  bool flushing ROTA_GUARDED_BY(mutex) = false;
  bool output_failed ROTA_GUARDED_BY(mutex) = false;  // The inner stream is unusable for writing.
  bool write_failed ROTA_GUARDED_BY(mutex) = false;   // A write_all() or shutdown_write() failed.
  bool write_ended ROTA_GUARDED_BY(mutex) = false;
  bool truncated ROTA_GUARDED_BY(mutex) = false;
  std::optional<Error> broken ROTA_GUARDED_BY(mutex){};

  [[nodiscard]] std::string reading() const { return "read from " + peer_name; }
  [[nodiscard]] std::string writing() const { return "write to " + peer_name; }

  template <class F>
  Call call(F&& f) ROTA_REQUIRES(mutex) {
    Call made;
    ERR_clear_error();
    made.result = f(ssl.get());
    made.status = SSL_get_error(ssl.get(), made.result);
    if (made.status == SSL_ERROR_SSL || made.status == SSL_ERROR_SYSCALL) made.error = take_errors();
    return made;
  }

  // The connection cannot be used any more. Tells the peer why, if that does not take long.
  Error fail(Error error) ROTA_REQUIRES(mutex) {
    broken = error;
    (void)flush(kAlertLimit, writing());
    return error;
  }
  Error fail(const std::string& operation, const OpensslError& error) ROTA_REQUIRES(mutex) {
    if (refusal.code != 0) return fail(refusal_error(operation, refusal, server_name));
    return fail(tls_error(operation, error, loaded->config->settings.min_version));
  }

  // Moves all output to the inner stream. Another task's bytes leave along with this task's.
  Result<void> flush(Deadline deadline, const std::string& operation) ROTA_REQUIRES(mutex);
  // Reads more input; 0 at the end of the inner stream. REQUIRES: the caller is the one who reads.
  Result<std::size_t> fill(Deadline deadline) ROTA_REQUIRES(mutex);
  Result<void> run_handshake(Deadline deadline) ROTA_REQUIRES(mutex);
  void remember_peer() ROTA_REQUIRES(mutex);
  // New keys for both directions.
  Result<void> update_keys() ROTA_REQUIRES(mutex);
  // Encrypts a part of `bytes` into the output ring; 0 if there is no room.
  Result<std::size_t> encrypt(std::string_view bytes) ROTA_REQUIRES(mutex);
};

Result<void> TlsStream::Engine::flush(Deadline deadline, const std::string& operation) {
  while (flushing) {
    if (closed) return closed_here(operation);
    Result<void> waited = changed.wait_until(mutex, deadline.time(), kWaits);
    if (waited.code() == ErrorCode::kDeadlineExceeded) return deadline_passed(operation);
    if (!waited.ok()) return waited;
  }
  if (output_failed) return after_failed_write(operation);
  flushing = true;
  Result<void> sent;
  for (;;) {
    char* data = nullptr;
    const int size = BIO_nread0(network.get(), &data);
    if (size <= 0) break;
    mutex.unlock();
    sent = inner->write_all({data, static_cast<std::size_t>(size)}, deadline);
    mutex.lock();
    if (!sent.ok()) {
      output_failed = true;
      break;
    }
    (void)BIO_nread(network.get(), &data, size);
  }
  flushing = false;
  changed.wake_all();
  return sent;
}

Result<std::size_t> TlsStream::Engine::fill(Deadline deadline) {
  char* data = nullptr;
  const int room = BIO_nwrite0(network.get(), &data);
  ROTA_ASSERT(room > 0, "TLS asks for input although 32 KiB of it are there");
  mutex.unlock();
  Result<std::size_t> count = inner->read_some({data, static_cast<std::size_t>(room)}, deadline);
  mutex.lock();
  if (count.ok() && *count > 0) (void)BIO_nwrite(network.get(), &data, static_cast<int>(*count));
  return count;
}

void TlsStream::Engine::remember_peer() {
  peer.version = SSL_get_version(ssl.get());
  const unsigned char* alpn = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl.get(), &alpn, &size);
  if (size != 0) peer.alpn.assign(reinterpret_cast<const char*>(alpn), size);
  if (const X509* certificate = SSL_get0_peer_certificate(ssl.get()); certificate != nullptr) {
    peer.certificate_name = common_name(X509_get_subject_name(certificate));
    peer.certificate_sha256 = hex_of(sha256_of(certificate));
  }
}

Result<void> TlsStream::Engine::run_handshake(Deadline deadline) {
  const std::string operation = "TLS handshake with " + peer_name;
  const Deadline by = Deadline::at(std::min(deadline.time(), handshake_by));
  for (;;) {
    if (closed) return closed_here(operation);
    Call made = call([](SSL* s) { return SSL_do_handshake(s); });
    const bool failed = made.status == SSL_ERROR_SSL || made.status == SSL_ERROR_SYSCALL;
    if (failed) return fail(operation, made.error);
    Result<void> moved = flush(by, operation);
    if (moved.ok() && made.result == 1) {
      remember_peer();
      return {};
    }
    if (moved.ok() && made.status == SSL_ERROR_WANT_READ) {
      Result<std::size_t> count = fill(by);
      if (count.ok() && *count == 0) {
        broken = Error{ErrorCode::kClosed, operation +
                                               ": the peer ended the connection; check that it speaks TLS on "
                                               "this port, and its log"};
        return *broken;
      }
      if (!count.ok()) moved = std::move(count).take_failure();
    }
    if (moved.ok()) continue;
    if (moved.code() == ErrorCode::kDeadlineExceeded && fiber::now() >= handshake_by) {
      const auto limit =
          std::chrono::duration_cast<std::chrono::milliseconds>(loaded->config->settings.handshake_limit);
      broken = Error{ErrorCode::kTimeout, operation + ": it took longer than " + std::to_string(limit.count()) +
                                              " ms; the peer is overloaded, unreachable, or does not speak TLS"};
      return *broken;
    }
    // A handshake that only waited for input can be continued.
    if (output_failed) broken = Error{ErrorCode::kClosed, operation + ": it was interrupted"};
    return moved;
  }
}

Result<void> TlsStream::Engine::update_keys() {
  records = 0;
  if (SSL_version(ssl.get()) != TLS1_3_VERSION) return {};
  const Call made = call([](SSL* s) {
    if (SSL_key_update(s, SSL_KEY_UPDATE_REQUESTED) != 1) return 0;
    return SSL_do_handshake(s);
  });
  if (made.result != 1) return fail(writing(), made.error);
  return {};
}

Result<std::size_t> TlsStream::Engine::encrypt(std::string_view bytes) {
  if (BIO_ctrl_get_write_guarantee(SSL_get_wbio(ssl.get())) < kRecordRoom) return std::size_t{0};
  if (++records > loaded->config->settings.rekey_after_records) ROTA_TRY(update_keys());
  const int size = static_cast<int>(std::min(bytes.size(), kRecordBytes));
  const Call made = call([&](SSL* s) { return SSL_write(s, bytes.data(), size); });
  if (made.result <= 0) return fail(writing(), made.error);
  return static_cast<std::size_t>(made.result);
}

// ---------------------------------------------------------------------------------------------------------- streams

TlsStream::TlsStream(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
TlsStream::~TlsStream() { engine_->inner->close(); }

Result<std::unique_ptr<TlsStream>> TlsStream::client(std::unique_ptr<ByteStream> inner, const TlsContext& context,
                                                     const std::string& server_name) {
  return make(std::move(inner), context, &server_name);
}

Result<std::unique_ptr<TlsStream>> TlsStream::server(std::unique_ptr<ByteStream> inner, const TlsContext& context) {
  return make(std::move(inner), context, nullptr);
}

Result<std::unique_ptr<TlsStream>> TlsStream::make(std::unique_ptr<ByteStream> inner, const TlsContext& context,
                                                   const std::string* server_name) {
  auto engine = std::make_unique<Engine>();
  Engine& e = *engine;
  e.loaded = context.current();
  e.peer_name = inner->peer();
  e.inner = std::move(inner);
  const TlsContext::Config& config = *e.loaded->config;
  const std::string operation = "TLS handshake with " + e.peer_name;
  ROTA_ASSERT(config.is_server == (server_name == nullptr), "the TLS context is for the other role");
  e.handshake_by = Deadline::after(config.settings.handshake_limit).time();
  {
    const sync::MutexLock lock(e.mutex);
    ERR_clear_error();
    BIO* internal = nullptr;
    BIO* network = nullptr;
    e.ssl.reset(SSL_new(e.loaded->context.get()));
    if (e.ssl == nullptr || BIO_new_bio_pair(&internal, kPairBytes, &network, kPairBytes) != 1) {
      return Error{ErrorCode::kResourceExhausted, operation + ": " + take_errors().text};
    }
    e.network.reset(network);
    SSL_set_bio(e.ssl.get(), internal, internal);
    SSL_set_app_data(e.ssl.get(), &e.refusal);
    X509_VERIFY_PARAM* checks = SSL_get0_param(e.ssl.get());
    if (config.settings.wall_clock) X509_VERIFY_PARAM_set_time(checks, config.settings.wall_clock());
    if (config.is_server) {
      SSL_set_accept_state(e.ssl.get());
    } else {
      SSL_set_connect_state(e.ssl.get());
      e.server_name = *server_name;
      if (server_name->empty()) {
        return Error{ErrorCode::kInvalidArgument,
                     operation + ": the name that the server's certificate must have is not known; set server_name"};
      }
      // A certificate is valid for the names in its subjectAltName; the common name has not counted for long.
      X509_VERIFY_PARAM_set_hostflags(checks,
                                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
      const bool named = X509_VERIFY_PARAM_set1_ip_asc(checks, server_name->c_str()) == 1 ||
                         (X509_VERIFY_PARAM_set1_host(checks, server_name->data(), server_name->size()) == 1 &&
                          SSL_set_tlsext_host_name(e.ssl.get(), server_name->c_str()) == 1);
      ERR_clear_error();
      if (!named) {
        return Error{ErrorCode::kInvalidArgument, operation + ": '" + *server_name + "' cannot be a server's name"};
      }
    }
  }
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(engine)));
}

Result<void> TlsStream::handshake(Deadline deadline) {
  Engine& e = *engine_;
  // Acquire, partner: the release below. What the handshake wrote is read under the mutex anyway.
  if (e.handshake_done.load(std::memory_order_acquire)) return {};
  const sync::MutexLock lock(e.mutex);
  while (e.handshaking) {
    Result<void> waited = e.changed.wait_until(e.mutex, deadline.time(), kWaits);
    if (waited.code() == ErrorCode::kDeadlineExceeded) return deadline_passed("TLS handshake with " + e.peer_name);
    if (!waited.ok()) return waited;
  }
  if (e.handshake_done.load(std::memory_order_relaxed)) return {};
  if (e.closed) return closed_here("TLS handshake with " + e.peer_name);
  if (e.broken.has_value()) return *e.broken;
  e.handshaking = true;
  Result<void> done = e.run_handshake(deadline);
  e.handshaking = false;
  if (done.ok()) e.handshake_done.store(true, std::memory_order_release);
  e.changed.wake_all();
  return done;
}

TlsPeer TlsStream::tls_peer() const {
  const sync::MutexLock lock(engine_->mutex);
  return engine_->peer;
}

Result<std::size_t> TlsStream::read_some(std::span<char> buffer, Deadline deadline) {
  if (buffer.empty()) return std::size_t{0};
  ROTA_TRY(fiber::check_cancelled());
  ROTA_TRY(handshake(deadline));
  Engine& e = *engine_;
  const sync::MutexLock lock(e.mutex);
  const int size = static_cast<int>(std::min<std::size_t>(buffer.size(), 1 << 30));
  for (;;) {
    if (e.closed) return closed_here(e.reading());
    if (e.broken.has_value()) return *e.broken;
    if (e.truncated) return truncated_error(e.reading());
    const Engine::Call made = e.call([&](SSL* s) { return SSL_read(s, buffer.data(), size); });
    if (made.result > 0) return static_cast<std::size_t>(made.result);
    switch (made.status) {
      case SSL_ERROR_ZERO_RETURN:
        return std::size_t{0};
      case SSL_ERROR_WANT_READ: {
        ROTA_TRY_ASSIGN(const std::size_t count, e.fill(deadline));
        e.truncated = count == 0;
        break;
      }
      case SSL_ERROR_WANT_WRITE:
        ROTA_TRY(e.flush(deadline, e.reading()));
        break;
      default:
        return e.fail(e.reading(), made.error);
    }
  }
}

Result<void> TlsStream::write_all(std::string_view bytes, Deadline deadline) {
  ROTA_TRY(fiber::check_cancelled());
  Engine& e = *engine_;
  Result<void> written = handshake(deadline);
  const sync::MutexLock lock(e.mutex);
  for (std::size_t done = 0; written.ok();) {
    if (e.closed) return closed_here(e.writing());
    if (e.write_failed) return after_failed_write(e.writing());
    if (e.write_ended) return broken_pipe(e.writing());
    if (e.broken.has_value()) return *e.broken;
    if (done == bytes.size()) return {};
    Result<std::size_t> taken = e.encrypt(bytes.substr(done));
    if (taken.ok()) {
      written = e.flush(deadline, e.writing());
      if (written.ok()) done += *taken;
    } else {
      written = std::move(taken).take_failure();
    }
    if (written.code() == ErrorCode::kDeadlineExceeded) written = deadline_passed(e.writing(), done);
  }
  e.write_failed = true;
  return written;
}

Result<void> TlsStream::shutdown_write(Deadline deadline) {
  const std::string operation = "end the stream to " + peer();
  Engine& e = *engine_;
  Result<void> ended = handshake(deadline);
  {
    const sync::MutexLock lock(e.mutex);
    if (e.closed) return closed_here(operation);
    if (e.write_failed) return after_failed_write(operation);
    if (e.write_ended) return {};
    if (ended.ok() && e.broken.has_value()) ended = *e.broken;
    if (ended.ok()) ended = e.flush(deadline, operation);  // Room for the alert.
    if (ended.ok()) {
      const Engine::Call made = e.call([](SSL* s) { return SSL_shutdown(s); });
      if (made.result < 0) {
        ended = e.fail(operation, made.error);
      } else {
        ended = e.flush(deadline, operation);
      }
    }
    if (!ended.ok()) {
      e.write_failed = true;
      return ended;
    }
    e.write_ended = true;
  }
  return e.inner->shutdown_write(deadline);
}

void TlsStream::close() {
  Engine& e = *engine_;
  {
    const sync::MutexLock lock(e.mutex);
    e.closed = true;
    e.changed.wake_all();
  }
  e.inner->close();
}

std::string TlsStream::peer() const { return engine_->peer_name; }

// --------------------------------------------------------------------------------------------------------- networks

namespace {

class TlsListener final : public Listener {
 public:
  TlsListener(std::unique_ptr<Listener> inner, std::shared_ptr<TlsContext> context)
      : inner_(std::move(inner)), context_(std::move(context)) {}
  Result<std::unique_ptr<ByteStream>> accept(Deadline deadline) override {
    ROTA_TRY_ASSIGN(std::unique_ptr<ByteStream> stream, inner_->accept(deadline));
    ROTA_TRY_ASSIGN(std::unique_ptr<TlsStream> secured, TlsStream::server(std::move(stream), *context_));
    return std::unique_ptr<ByteStream>(std::move(secured));
  }
  [[nodiscard]] Endpoint endpoint() const override { return inner_->endpoint(); }
  void close() override { inner_->close(); }

 private:
  const std::unique_ptr<Listener> inner_;
  const std::shared_ptr<TlsContext> context_;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> TlsNetwork::connect(const Endpoint& endpoint, Deadline deadline) {
  if (client_ == nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 "connect to " + endpoint.to_string() + ": no TLS settings for clients are configured"};
  }
  const std::string& configured = client_->config_->server_name;
  ROTA_TRY_ASSIGN(std::unique_ptr<ByteStream> stream, inner_.connect(endpoint, deadline));
  ROTA_TRY_ASSIGN(std::unique_ptr<TlsStream> secured,
                  TlsStream::client(std::move(stream), *client_, configured.empty() ? endpoint.host : configured));
  if (Result<void> done = secured->handshake(deadline); !done.ok()) {
    Error error = std::move(done).take_error();
    if (error.code == ErrorCode::kClosed) error.code = ErrorCode::kUnavailable;  // There is no connection yet.
    return error;
  }
  return std::unique_ptr<ByteStream>(std::move(secured));
}

Result<std::unique_ptr<Listener>> TlsNetwork::listen(const Endpoint& endpoint) {
  if (server_ == nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 "listen on " + endpoint.to_string() + ": no TLS certificate for servers is configured"};
  }
  ROTA_TRY_ASSIGN(std::unique_ptr<Listener> listener, inner_.listen(endpoint));
  return std::make_unique<TlsListener>(std::move(listener), server_);
}

}  // namespace rota::net
