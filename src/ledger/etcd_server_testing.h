// A cluster of etcd servers for tests and benchmarks: on loopback, on free ports, with its data in a temporary folder.
//
// The servers die with the thread that started them (PR_SET_PDEATHSIG), so that a killed test leaves nothing behind:
// start them in main's thread, or in one that lives as long as they are needed.
// Thread safety: none.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ledger/etcd_store.h"
#include "rota/assert.h"

namespace rota::ledger::kv {

class EtcdCluster {
 public:
  struct Options {
    std::size_t nodes = 3;
    bool tls = false;                         // Clients use https and need a certificate; see `arguments`.
    std::vector<std::string> arguments = {};  // {"--quota-backend-bytes", "16777216"}.
    bool on_disk = false;                     // Data in the folder for temporary files, so that each sync is real.
  };

  // The servers start, and may not serve yet: the first calls wait for them.
  EtcdCluster() : EtcdCluster(Options{}) {}
  explicit EtcdCluster(Options options) : options_(std::move(options)), nodes_(options_.nodes) {
    // Tests keep the data in memory: a sync costs nothing there, and they are not about etcd's own durability.
    const std::filesystem::path shared = "/dev/shm";
    const std::filesystem::path where =
        !options_.on_disk && ::access(shared.c_str(), W_OK) == 0 ? shared : std::filesystem::temp_directory_path();
    std::string name = (where / "rota-etcd-XXXXXX").string();
    ROTA_ASSERT(::mkdtemp(name.data()) != nullptr, "no temporary folder");
    folder_ = name;
    // Another program may take a port between its choice and its use: then a server ends, and all start anew.
    for (int attempt = 0; attempt < 5; ++attempt) {
      choose_ports();
      for (std::size_t i = 0; i < nodes_.size(); ++i) start(i);
      if (all_listen()) return;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        kill(i);
        std::filesystem::remove_all(folder_ + "/data" + std::to_string(i));
      }
    }
    ROTA_ASSERT(false, "etcd does not start; is the package etcd-server installed?", log(0));
  }
  ~EtcdCluster() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) kill(i);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  void start(std::size_t i) {
    Node& node = nodes_[i];
    const std::string scheme = options_.tls ? "https://" : "http://";
    const std::string client = scheme + "127.0.0.1:" + std::to_string(node.client_port);
    const std::string peer = "http://127.0.0.1:" + std::to_string(node.peer_port);
    std::vector<std::string> arguments = {"etcd", "--name", name(i), "--data-dir",
                                          folder_ + "/data" + std::to_string(i), "--listen-client-urls", client,
                                          "--advertise-client-urls", client, "--listen-peer-urls", peer,
                                          "--initial-advertise-peer-urls", peer, "--initial-cluster", initial_cluster(),
                                          // A busy machine must not look like a dead leader.
                                          "--heartbeat-interval", "300", "--election-timeout", "3000", "--logger",
                                          "zap", "--log-outputs", folder_ + "/log" + std::to_string(i)};
    arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const pid_t parent = ::getpid();
    node.process = ::fork();
    ROTA_ASSERT(node.process >= 0, "no process");
    if (node.process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      const int nothing = ::open("/dev/null", O_RDWR);
      ::dup2(nothing, STDOUT_FILENO);
      ::dup2(nothing, STDERR_FILENO);
      ::execvp(pointers[0], pointers.data());
      ::_exit(127);
    }
  }
  void kill(std::size_t i) {
    pid_t& process = nodes_[i].process;
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = -1;
  }
  void pause(std::size_t i) const { ::kill(nodes_[i].process, SIGSTOP); }
  void resume(std::size_t i) const { ::kill(nodes_[i].process, SIGCONT); }

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] net::Endpoint endpoint(std::size_t i) const {
    return {.host = "127.0.0.1", .port = nodes_[i].client_port};
  }
  // Options for tests: patient, because the machine may be busy; `first` is the member that is used first.
  [[nodiscard]] net::GrpcOptions client_options(std::size_t first = 0) const {
    net::GrpcOptions options;
    for (std::size_t i = 0; i < nodes_.size(); ++i) options.endpoints.push_back(endpoint(i));
    options.seed = first;
    options.reply_within = std::chrono::seconds(30);
    options.connect_within = std::chrono::seconds(30);
    options.retry_most = std::chrono::milliseconds(100);
    options.tls = options_.tls;
    return options;
  }
  [[nodiscard]] std::string log(std::size_t i) const {
    std::ifstream file(folder_ + "/log" + std::to_string(i));
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  struct Node {
    pid_t process = -1;
    std::uint16_t client_port = 0;
    std::uint16_t peer_port = 0;
  };

  static std::string name(std::size_t i) { return "node" + std::to_string(i); }
  [[nodiscard]] std::string initial_cluster() const {
    std::string all;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      all += (i == 0 ? "" : ",") + name(i) + "=http://127.0.0.1:" + std::to_string(nodes_[i].peer_port);
    }
    return all;
  }
  // All are held at the same time, so that they differ.
  void choose_ports() {
    std::vector<int> sockets;
    const auto choose = [&] {
      const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof address;
      ROTA_ASSERT(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0, "no port");
      ROTA_ASSERT(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0, "no port");
      sockets.push_back(socket);
      return ntohs(address.sin_port);
    };
    for (Node& node : nodes_) {
      node.client_port = choose();
      node.peer_port = choose();
    }
    for (const int socket : sockets) ::close(socket);
  }
  // Waits until every server accepts connections; false if one has ended.
  bool all_listen() {
    for (Node& node : nodes_) {
      for (;;) {
        if (::waitpid(node.process, nullptr, WNOHANG) != 0) {
          node.process = -1;
          return false;
        }
        const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(node.client_port);
        const bool listens = ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        ::close(socket);
        if (listens) break;
        ::usleep(5000);
      }
    }
    return true;
  }

  Options options_;
  std::vector<Node> nodes_;
  std::string folder_;
};

// One cluster for all tests of the program, started by the first of them, in main's thread.
inline EtcdCluster& shared_cluster() {
  static EtcdCluster cluster;
  return cluster;
}

}  // namespace rota::ledger::kv
