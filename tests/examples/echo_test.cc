// examples/echo as its user runs it: the self-test in small, and a server that is spoken to and stopped.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

// A run of the example: what it prints comes through a pipe.
class Echo {
 public:
  explicit Echo(std::vector<std::string> arguments) {
    int ends[2];
    if (pipe(ends) != 0) return;
    arguments.insert(arguments.begin(), ROTA_ECHO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      execv(ROTA_ECHO, argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Echo() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    if (output_ != nullptr) std::fclose(output_);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  std::string line() {
    char text[4096];
    return output_ == nullptr || std::fgets(text, sizeof(text), output_) == nullptr ? std::string() : text;
  }
  // What it says until it ends; its exit status, or -1 if a signal was its end.
  int end(std::string* said) {
    for (std::string next = line(); !next.empty(); next = line()) *said += next;
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void stop(int signal) const { kill(child_, signal); }

 private:
  pid_t child_ = -1;
  std::FILE* output_ = nullptr;
};

// A connected socket of the ordinary, blocking kind.
class Client {
 public:
  explicit Client(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Empty when the server has ended the connection.
  std::string ask(const std::string& text) {
    if (send(socket_, text.data(), text.size(), MSG_NOSIGNAL) < 0) return "";
    std::string answer(text.size(), '\0');
    const ssize_t got = recv(socket_, answer.data(), answer.size(), MSG_WAITALL);
    return got == static_cast<ssize_t>(text.size()) ? answer : "";
  }
  // Waits for the server to end the connection.
  bool ended() {
    char byte;
    return recv(socket_, &byte, 1, 0) <= 0;
  }

 private:
  int socket_;
};

int port_of(const std::string& line) {
  int port = 0;
  std::sscanf(line.c_str(), "echo: listening on 127.0.0.1:%d", &port);
  return port;
}

#if defined(__SANITIZE_THREAD__)
constexpr const char* kMany = "200";  // A stack costs as much as a thread there.
#elif defined(__SANITIZE_ADDRESS__)
constexpr const char* kMany = "2000";
#else
constexpr const char* kMany = "10000";
#endif

// Contract: F-22, F-26. Real connections and in-process ones: each is held, each is answered, the silent and the
// flooding client are dropped.
TEST(Echo, SelfTest) {
  Echo echo({"--self-test", kMany, "--sockets", "100", "--workers", "2"});
  std::string said;
  EXPECT_EQ(echo.end(&said), 0) << said;
  EXPECT_NE(said.find("self-test: all as it should be"), std::string::npos) << said;
  EXPECT_EQ(said.find("NOT"), std::string::npos) << said;
}

// Contract: F-9, F-26. A signal stops it while clients are connected, and it says what became of them.
TEST(Echo, AnswersAndStops) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Echo echo({"--port", "0"});
    const int port = port_of(echo.line());
    ASSERT_GT(port, 0);
    Client first(port);
    Client second(port);
    EXPECT_EQ(first.ask("hello"), "hello");
    EXPECT_EQ(second.ask(std::string(100'000, 'x')), std::string(100'000, 'x'));
    echo.stop(signal);
    EXPECT_TRUE(first.ended());
    EXPECT_TRUE(second.ended());
    std::string said;
    EXPECT_EQ(echo.end(&said), 0) << said;
    EXPECT_NE(said.find("2 stopped, 0 broken"), std::string::npos) << said;
  }
}

// Contract: F-11, F-26. A client that floods runs out of its budget; one that is silent, out of time. The next client
// is served.
TEST(Echo, DropsWhoMisbehaves) {
  // Each has a server of its own: with a short limit for silence, a slow machine would make the others silent, too.
  Echo impatient({"--idle-ms", "200"});
  const int impatient_port = port_of(impatient.line());
  ASSERT_GT(impatient_port, 0);
  Client silent(impatient_port);
  EXPECT_TRUE(silent.ended());
  Echo echo({"--burst", "10"});
  const int port = port_of(echo.line());
  ASSERT_GT(port, 0);
  Client flooding(port);
  int answers = 0;
  while (answers < 1'000'000 && flooding.ask("x") == "x") ++answers;
  EXPECT_GE(answers, 10);
  EXPECT_LT(answers, 1'000'000);
  Client good(port);
  EXPECT_EQ(good.ask("hello"), "hello");
  echo.stop(SIGTERM);
  std::string said;
  EXPECT_EQ(echo.end(&said), 0) << said;
  EXPECT_NE(said.find(" 1 flooding"), std::string::npos) << said;
}

TEST(Echo, SaysWhatItTakes) {
  std::string said;
  EXPECT_EQ(Echo({"--help"}).end(&said), 0);
  EXPECT_EQ(said.rfind("usage: echo", 0), 0U) << said;
  said.clear();
  EXPECT_EQ(Echo({"--port", "teapot"}).end(&said), 2);
  EXPECT_NE(said.find("--port is 'teapot'; allowed is a number from 0 to 65535"), std::string::npos) << said;
  said.clear();
  EXPECT_EQ(Echo({"--shout"}).end(&said), 2);
  EXPECT_NE(said.find("there is no option '--shout'"), std::string::npos) << said;
}

}  // namespace
