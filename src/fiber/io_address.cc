// Addresses and name resolution.
#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fiber/io_error.h"
#include "rota/assert.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/io.h"

namespace rota::fiber {

using namespace detail;

namespace {

constexpr std::size_t kPathOffset = offsetof(sockaddr_un, sun_path);

// The bytes of an address as the corresponding structure.
template <class Sockaddr>
Sockaddr as(const void* bytes) {
  Sockaddr address{};
  std::memcpy(&address, bytes, sizeof address);
  return address;
}

// The result of getaddrinfo() as a Result.
Result<std::vector<Address>> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const std::string what = "look up '" + host + "'";
  if (error == EAI_SYSTEM) return os_error(errno, what);
  if (error != 0) {
    const bool unknown = error == EAI_NONAME || error == EAI_NODATA;
    return Error{unknown ? ErrorCode::kNotFound : ErrorCode::kUnavailable, what + ": " + gai_strerror(error)};
  }
  std::vector<Address> addresses;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    if (at->ai_addrlen <= sizeof(sockaddr_storage)) addresses.push_back(Address::native(at->ai_addr, at->ai_addrlen));
  }
  freeaddrinfo(list);
  if (addresses.empty()) return Error{ErrorCode::kNotFound, what + ": it has no address"};
  return addresses;
}

}  // namespace

Address Address::native(const void* sockaddr, std::size_t size) {
  static_assert(sizeof(bytes_) == sizeof(sockaddr_storage));
  ROTA_ASSERT(size <= sizeof(bytes_), "an address of ", size, " bytes");
  Address address;
  std::memcpy(address.bytes_, sockaddr, size);
  address.size_ = static_cast<std::uint32_t>(size);
  return address;
}

Result<Address> Address::ip(std::string_view host, std::uint16_t port) {
  const std::string text(host);
  sockaddr_in v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return native(&v4, sizeof v4);
  }
  sockaddr_in6 v6{};
  const std::size_t percent = text.find('%');
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    if (percent != std::string::npos) {
      v6.sin6_scope_id = if_nametoindex(text.c_str() + percent + 1);
      if (v6.sin6_scope_id == 0) return os_error(errno, "no such interface in '" + text + "'");
    }
    return native(&v6, sizeof v6);
  }
  return Error{ErrorCode::kInvalidArgument, "'" + text + "' is no IPv4 or IPv6 address"};
}

Result<Address> Address::unix_path(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A path needs room for its terminating zero.
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::kInvalidArgument, "a Unix socket's path must have 1 to " +
                                                  std::to_string(sizeof address.sun_path - 1) + " bytes, not " +
                                                  std::to_string(path.size())};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool abstract = path[0] == '@';
  if (abstract) address.sun_path[0] = '\0';
  return native(&address, kPathOffset + path.size() + (abstract ? 0 : 1));
}

int Address::family() const { return size_ == 0 ? AF_UNSPEC : as<::sockaddr>(bytes_).sa_family; }

std::uint16_t Address::port() const {
  if (family() == AF_INET) return ntohs(as<sockaddr_in>(bytes_).sin_port);
  if (family() == AF_INET6) return ntohs(as<sockaddr_in6>(bytes_).sin6_port);
  return 0;
}

std::string Address::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  switch (family()) {
    case AF_INET: {
      const auto v4 = as<sockaddr_in>(bytes_);
      inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
      return std::string(text) + ":" + std::to_string(port());
    }
    case AF_INET6: {
      const auto v6 = as<sockaddr_in6>(bytes_);
      inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
      std::string scope = v6.sin6_scope_id == 0 ? "" : "%" + std::to_string(v6.sin6_scope_id);
      return "[" + std::string(text) + scope + "]:" + std::to_string(port());
    }
    case AF_UNIX: {
      const auto path = as<sockaddr_un>(bytes_);
      if (size_ <= kPathOffset) return "unix:unnamed";
      const std::size_t bytes = size_ - kPathOffset;
      if (path.sun_path[0] == '\0') return "unix:@" + std::string(path.sun_path + 1, bytes - 1);
      return "unix:" + std::string(path.sun_path, strnlen(path.sun_path, std::min(bytes, sizeof path.sun_path)));
    }
    default:
      return size_ == 0 ? "none" : "family " + std::to_string(family());
  }
}

bool Address::operator==(const Address& other) const {
  return size_ == other.size_ && std::memcmp(bytes_, other.bytes_, size_) == 0;
}

Result<std::vector<Address>> resolve(std::string_view host, std::uint16_t port, Deadline deadline) {
  if (Result<Address> numeric = Address::ip(host, port); numeric.ok()) return std::vector{*numeric};
  const std::string name(host);
  Result<std::vector<Address>> addresses = blocking([&] { return look_up(name, port); });
  if (addresses.ok() && now() >= deadline.time()) return deadline_error("look up '" + name + "'");
  return addresses;
}

}  // namespace rota::fiber
