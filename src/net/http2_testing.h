// A server for the tests of the HTTP/2 and gRPC clients: answers each request as a handler says, over any network.
//
// Thread safety: the handler is called by the tasks of the connections.
#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/grpc.h"
#include "net/stream.h"
#include "rota/assert.h"
#include "rota/fiber/nursery.h"

namespace rota::net::testing {

struct TestReply {
  enum class Kind : std::uint8_t {
    kWhole,         // Head, body, trailers.
    kTrailersOnly,  // One head that ends the stream.
    kOpen,          // Head and body; the stream stays open.
    kSilent,        // Nothing.
    kReset,         // RST_STREAM.
    kGoaway,        // As kWhole, after a GOAWAY that admits this request.
    kHangUp,        // The connection is closed.
    kGarbage,       // Bytes that are not HTTP/2.
  };
  Kind kind = Kind::kWhole;
  std::string body{};
  std::string status = "0";
  std::string message{};
};

class TestHttp2Server {
 public:
  using Handler = std::function<TestReply(const std::string& path, const std::string& body)>;

  TestHttp2Server(std::unique_ptr<Listener> listener, Handler handler, fiber::Nursery& nursery)
      : listener_(std::move(listener)), handler_(std::move(handler)) {
    nursery.launch([this, &nursery] {
      for (;;) {
        Result<std::unique_ptr<ByteStream>> stream = listener_->accept({});
        if (!stream.ok()) return;
        ++connections_;
        auto connection = std::make_shared<Connection>(*this, std::move(*stream));
        open_.push_back(connection);
        nursery.launch([connection] { connection->serve(); });
      }
    });
  }
  // Ends every connection. The nursery waits for the tasks.
  void close() {
    listener_->close();
    for (const auto& connection : open_) connection->stream->close();
  }
  [[nodiscard]] int connections() const { return connections_; }
  [[nodiscard]] int pings() const { return pings_; }
  [[nodiscard]] int resets() const { return resets_; }

 private:
  struct Request {
    std::string path{};
    std::string body{};
    TestReply reply{};
    std::size_t sent = 0;
  };

  struct Connection {
    Connection(TestHttp2Server& the_server, std::unique_ptr<ByteStream> the_stream)
        : server(the_server), stream(std::move(the_stream)) {
      nghttp2_session_callbacks* callbacks = nullptr;
      ROTA_ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
      nghttp2_session_callbacks_set_on_header_callback(callbacks, &Connection::on_header);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Connection::on_data);
      nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Connection::on_frame);
      ROTA_ASSERT(nghttp2_session_server_new(&session, callbacks, this) == 0);
      nghttp2_session_callbacks_del(callbacks);
      nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    }
    ~Connection() { nghttp2_session_del(session); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void serve() {
      std::vector<char> buffer(1U << 16);
      while (!hung_up) {
        const std::uint8_t* data = nullptr;
        for (ssize_t size = 0; (size = nghttp2_session_mem_send(session, &data)) > 0;) {
          const std::string bytes(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
          if (!stream->write_all(bytes, {}).ok()) return;
        }
        if (!garbage.empty()) (void)stream->write_all(std::exchange(garbage, {}), {});
        const Result<std::size_t> count = stream->read_some(buffer, {});
        if (!count.ok() || *count == 0) return;
        if (nghttp2_session_mem_recv(session, reinterpret_cast<std::uint8_t*>(buffer.data()), *count) < 0) return;
      }
      stream->close();
    }

    static nghttp2_nv pair(const std::string& name, const std::string& value) {
      return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
              reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
              NGHTTP2_NV_FLAG_NONE};
    }
    static int on_header(nghttp2_session* /*s*/, const nghttp2_frame* frame, const std::uint8_t* name,
                         std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                         std::uint8_t /*flags*/, void* user) {
      auto& self = *static_cast<Connection*>(user);
      if (std::string(reinterpret_cast<const char*>(name), name_size) == ":path") {
        self.requests[frame->hd.stream_id].path.assign(reinterpret_cast<const char*>(value), value_size);
      }
      return 0;
    }
    static int on_data(nghttp2_session* /*s*/, std::uint8_t /*flags*/, std::int32_t id, const std::uint8_t* data,
                       std::size_t size, void* user) {
      static_cast<Connection*>(user)->requests[id].body.append(reinterpret_cast<const char*>(data), size);
      return 0;
    }
    static int on_frame(nghttp2_session* s, const nghttp2_frame* frame, void* user) {
      auto& self = *static_cast<Connection*>(user);
      if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) ++self.server.pings_;
      if (frame->hd.type == NGHTTP2_RST_STREAM) ++self.server.resets_;
      if (frame->hd.type == NGHTTP2_DATA && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        self.answer(s, frame->hd.stream_id);
      }
      return 0;
    }
    void answer(nghttp2_session* s, std::int32_t id) {
      Request& request = requests[id];
      request.reply = server.handler_(request.path, request.body);
      using Kind = TestReply::Kind;
      const Kind kind = request.reply.kind;
      const std::string status = ":status", ok = "200", type = "content-type", grpc = "application/grpc";
      std::vector<nghttp2_nv> head = {pair(status, ok), pair(type, grpc)};
      const std::string status_name = "grpc-status", message_name = "grpc-message";
      if (kind == Kind::kTrailersOnly) {
        head.push_back(pair(status_name, request.reply.status));
        head.push_back(pair(message_name, request.reply.message));
        nghttp2_submit_response(s, id, head.data(), head.size(), nullptr);
      } else if (kind == Kind::kReset) {
        nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
      } else if (kind == Kind::kHangUp) {
        hung_up = true;
      } else if (kind == Kind::kGarbage) {
        garbage = std::string(100, '\x7f');
      } else if (kind != Kind::kSilent) {
        if (kind == Kind::kGoaway) nghttp2_submit_goaway(s, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR, nullptr, 0);
        nghttp2_data_provider provider{};
        provider.read_callback = &Connection::read_body;
        nghttp2_submit_response(s, id, head.data(), head.size(), &provider);
      }
    }
    static ssize_t read_body(nghttp2_session* s, std::int32_t id, std::uint8_t* buffer, std::size_t size,
                             std::uint32_t* flags, nghttp2_data_source* /*source*/, void* user) {
      Request& request = static_cast<Connection*>(user)->requests[id];
      const std::size_t count = std::min(size, request.reply.body.size() - request.sent);
      if (count == 0 && request.reply.kind == TestReply::Kind::kOpen) return NGHTTP2_ERR_DEFERRED;
      std::memcpy(buffer, request.reply.body.data() + request.sent, count);
      request.sent += count;
      if (request.sent == request.reply.body.size() && request.reply.kind != TestReply::Kind::kOpen) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        const std::string status_name = "grpc-status", message_name = "grpc-message";
        const nghttp2_nv trailers[] = {pair(status_name, request.reply.status),
                                       pair(message_name, request.reply.message)};
        nghttp2_submit_trailer(s, id, trailers, 2);
      }
      return static_cast<ssize_t>(count);
    }

    TestHttp2Server& server;
    const std::unique_ptr<ByteStream> stream;
    nghttp2_session* session = nullptr;
    std::map<std::int32_t, Request> requests{};
    std::string garbage{};
    bool hung_up = false;
  };

  std::unique_ptr<Listener> listener_;
  Handler handler_;
  std::vector<std::shared_ptr<Connection>> open_{};
  int connections_ = 0;
  int pings_ = 0;
  int resets_ = 0;
};

}  // namespace rota::net::testing
