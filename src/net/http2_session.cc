#include "net/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "rota/assert.h"

namespace rota::net {

namespace {

constexpr std::size_t kOutputBytes = 64U << 10;
constexpr std::int32_t kLastId = 0x7ffffffe;

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  nghttp2_nv pair{};
  // nghttp2 copies both; its interface predates const.
  pair.name = reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data()));
  pair.value = reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data()));
  pair.namelen = name.size();
  pair.valuelen = value.size();
  pair.flags = NGHTTP2_NV_FLAG_NONE;
  return pair;
}

}  // namespace

const std::string* Http2Incoming::field(std::string_view name) const {
  for (const HttpField& field : fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

struct Http2Session::State {
  struct Stream {
    Http2Incoming incoming{};
    std::string request{};  // The body that is being sent.
    std::size_t sent = 0;
    std::size_t head_bytes = 0;
  };

  explicit State(Http2Options the_options) : options(std::move(the_options)) {}
  ~State() { nghttp2_session_del(session); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Http2Options options;
  nghttp2_session* session = nullptr;
  std::map<std::int32_t, Stream> streams{};
  std::vector<std::int32_t> touched{};
  std::uint64_t pongs = 0;
  bool goaway = false;
  bool broken = false;

  Stream* stream(std::int32_t id) {
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : &found->second;
  }
  void touch(std::int32_t id) {
    if (touched.empty() || touched.back() != id) touched.push_back(id);
  }

  static State& of(void* user) { return *static_cast<State*>(user); }

  static int on_header(nghttp2_session* /*session*/, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t /*flags*/,
                       void* user) {
    State& state = of(user);
    Stream* stream = state.stream(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    Http2Incoming& incoming = stream->incoming;
    stream->head_bytes += name_size + value_size + 32;
    if (stream->head_bytes > state.options.head_bytes) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // Resets it.
    if (text_of(name, name_size) == ":status") {
      // nghttp2 admits three digits only. An interim response is followed by another head.
      incoming.status = 0;
      incoming.fields.clear();
      for (const char digit : text_of(value, value_size)) incoming.status = incoming.status * 10 + (digit - '0');
      return 0;
    }
    incoming.fields.push_back({std::string(text_of(name, name_size)), std::string(text_of(value, value_size))});
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    State& state = of(user);
    nghttp2_session_consume_connection(session, size);
    if (Stream* stream = state.stream(id); stream != nullptr) {
      stream->incoming.body.append(text_of(data, size));
      state.touch(id);
    }
    return 0;
  }

  static int on_frame(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    State& state = of(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) state.goaway = true;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) ++state.pongs;
    if (frame->hd.type == NGHTTP2_HEADERS) state.touch(frame->hd.stream_id);
    const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (last && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
      // The response is complete even if the server has not read all of the request.
      if (Stream* stream = state.stream(frame->hd.stream_id); stream != nullptr) {
        stream->incoming.ended = stream->incoming.complete = true;
        state.touch(frame->hd.stream_id);
      }
    }
    return 0;
  }

  static int on_close(nghttp2_session* /*session*/, std::int32_t id, std::uint32_t error, void* user) {
    State& state = of(user);
    Stream* stream = state.stream(id);
    if (stream == nullptr) return 0;
    Http2Incoming& incoming = stream->incoming;
    if (!incoming.ended) {
      incoming.ended = true;
      incoming.refused = error == NGHTTP2_REFUSED_STREAM;
      incoming.reason = nghttp2_http2_strerror(error);
    }
    state.touch(id);
    return 0;
  }

  static ssize_t read_request(nghttp2_session* /*session*/, std::int32_t id, std::uint8_t* buffer, std::size_t size,
                              std::uint32_t* flags, nghttp2_data_source* /*source*/, void* user) {
    Stream* stream = of(user).stream(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::size_t count = std::min(size, stream->request.size() - stream->sent);
    std::memcpy(buffer, stream->request.data() + stream->sent, count);
    stream->sent += count;
    if (stream->sent == stream->request.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }
};

Http2Session::Http2Session(Http2Options options) : state_(std::make_unique<State>(std::move(options))) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* rules = nullptr;
  ROTA_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&rules) == 0, "out of memory");
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &State::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &State::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &State::on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &State::on_close);
  nghttp2_option_set_no_auto_window_update(rules, 1);
  ROTA_ASSERT(nghttp2_session_client_new2(&state_->session, callbacks, state_.get(), rules) == 0, "out of memory");
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(rules);

  const std::uint32_t window = state_->options.window_bytes;
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
  ROTA_ASSERT(nghttp2_submit_settings(state_->session, NGHTTP2_FLAG_NONE, settings, 2) == 0, "out of memory");
  ROTA_ASSERT(nghttp2_session_set_local_window_size(state_->session, NGHTTP2_FLAG_NONE, 0,
                                                    static_cast<std::int32_t>(window)) == 0,
              "a bad window");
}

Http2Session::~Http2Session() = default;

Result<std::int32_t> Http2Session::submit(std::string_view path, const std::vector<HttpField>& fields,
                                          std::string body) {
  if (!accepts_requests()) {
    return Error{ErrorCode::kUnavailable, state_->options.authority + " takes no more requests on this connection"};
  }
  std::vector<nghttp2_nv> head = {pair_of(":method", "POST"), pair_of(":scheme", state_->options.scheme),
                                  pair_of(":path", path), pair_of(":authority", state_->options.authority)};
  for (const HttpField& field : fields) head.push_back(pair_of(field.name, field.value));
  nghttp2_data_provider provider{};
  provider.read_callback = &State::read_request;
  const std::int32_t id =
      nghttp2_submit_request(state_->session, nullptr, head.data(), head.size(), &provider, nullptr);
  if (id < 0) {
    return Error{ErrorCode::kUnavailable, "a request to " + state_->options.authority + ": " + nghttp2_strerror(id)};
  }
  state_->streams[id].request = std::move(body);
  return id;
}

Result<void> Http2Session::receive(std::string_view bytes) {
  const auto broken = [&](const std::string& what) {
    state_->broken = true;
    return Error{ErrorCode::kCorrupt, state_->options.authority + " does not follow HTTP/2: " + what};
  };
  if (state_->broken) return broken("an earlier violation");
  const ssize_t used =
      nghttp2_session_mem_recv(state_->session, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (used < 0) return broken(nghttp2_strerror(static_cast<int>(used)));
  // nghttp2 answers a violation with GOAWAY and stops reading. A GOAWAY of the server alone does not stop it.
  if (nghttp2_session_want_read(state_->session) == 0 && !state_->goaway) return broken("a wrong frame");
  return {};
}

std::string Http2Session::output() {
  std::string bytes;
  while (bytes.size() < kOutputBytes) {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(state_->session, &data);
    if (size < 0) state_->broken = true;  // Out of memory.
    if (size <= 0) break;
    bytes.append(text_of(data, static_cast<std::size_t>(size)));
  }
  return bytes;
}

std::vector<std::int32_t> Http2Session::take_touched() { return std::exchange(state_->touched, {}); }

Http2Incoming* Http2Session::find(std::int32_t id) {
  State::Stream* stream = state_->stream(id);
  return stream == nullptr ? nullptr : &stream->incoming;
}

void Http2Session::consume(std::int32_t id, std::size_t bytes) {
  if (bytes != 0) nghttp2_session_consume_stream(state_->session, id, bytes);  // Refuses a stream that is gone.
}

void Http2Session::forget(std::int32_t id) {
  State::Stream* stream = state_->stream(id);
  if (stream == nullptr) return;
  const bool unfinished = !stream->incoming.ended || stream->sent < stream->request.size();
  state_->streams.erase(id);
  if (unfinished) nghttp2_submit_rst_stream(state_->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
}

void Http2Session::ping() { nghttp2_submit_ping(state_->session, NGHTTP2_FLAG_NONE, nullptr); }
std::uint64_t Http2Session::pongs() const { return state_->pongs; }

bool Http2Session::accepts_requests() const {
  return !state_->goaway && !state_->broken && nghttp2_session_check_request_allowed(state_->session) != 0 &&
         nghttp2_session_get_next_stream_id(state_->session) < static_cast<std::uint32_t>(kLastId);
}
std::size_t Http2Session::open_streams() const { return state_->streams.size(); }

}  // namespace rota::net
