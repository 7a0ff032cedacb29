// A port of loopback for a server of a test.
//
// A port that was free a moment ago may be somebody else's when the server starts: other tests run at the same time,
// and the kernel gives each client a port from the same range. A client that tries to connect to such a port while its
// server is down may even get it as its own, and is then connected to itself. Here a socket is bound to the port and
// never listens: the kernel gives the port to nobody else and refuses connections, while a server that sets
// SO_REUSEADDR, as ours and Redis do, can listen on it as often as it likes.
// Thread safety: none needed; it does not change.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "rota/assert.h"

namespace rota::net {

class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ROTA_ASSERT(::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "no port");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ROTA_ASSERT(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0, "no port");
    ROTA_ASSERT(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "no port");
    number_ = ntohs(address.sin_port);
  }
  ~ReservedPort() { ::close(socket_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  [[nodiscard]] std::uint16_t number() const { return number_; }

 private:
  int socket_;
  std::uint16_t number_ = 0;
};

}  // namespace rota::net
