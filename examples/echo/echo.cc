// An echo server that cannot be starved, flooded or filled up, and that holds 100,000 connections, one task each.
// server.h explains the limits; docs/fibers.md builds it step by step. `echo --help` lists the options.
#include <sys/signalfd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "self_test.h"
#include "server.h"

using namespace echo;

namespace {

constexpr const char* kUsage =
    "usage: echo [options]\n"
    "  --port N         listens on 127.0.0.1:N; 0, the default, is a free port, which is printed\n"
    "  --idle-ms N      drops a client that is silent for this long; 60000\n"
    "  --burst N        echoes that a client may request at once, refilled each second; 1000\n"
    "  --clients N      clients served at a time, at most; 100000\n"
    "  --workers N      threads; one per core\n"
    "  --self-test [N]  opens N connections to itself, 100000 if N is not given, and checks every echo\n"
    "  --sockets N      how many of these are real sockets, at most; 20000. The rest are in-process\n"
    "SIGINT and SIGTERM stop it: echoes that have started are finished.\n";

struct Options {
  Limits limits;
  std::uint16_t port = 0;
  std::size_t workers = 0;
  std::uint32_t self_test = 0;
  std::uint32_t sockets = kMostSockets;
};

// A whole number in its range; otherwise ends the program with a message.
long number(const char* text, std::string_view what, long least, long most) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > most) {
    std::fprintf(stderr, "echo: %.*s is '%s'; allowed is a number from %ld to %ld\n", static_cast<int>(what.size()),
                 what.data(), text, least, most);
    std::exit(2);
  }
  return value;
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const bool has_value = i + 1 < argc;
    const auto value = [&](long least, long most) { return number(has_value ? argv[++i] : "", name, least, most); };
    if (name == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else if (name == "--port") {
      options.port = static_cast<std::uint16_t>(value(0, 65'535));
    } else if (name == "--idle-ms") {
      options.limits.idle = std::chrono::milliseconds(value(1, 86'400'000));
    } else if (name == "--burst") {
      options.limits.burst = static_cast<std::uint16_t>(value(1, 30'000));
    } else if (name == "--clients") {
      options.limits.clients = static_cast<std::uint32_t>(value(1, 10'000'000));
    } else if (name == "--workers") {
      options.workers = static_cast<std::size_t>(value(1, 1024));
    } else if (name == "--self-test") {
      const bool says = has_value && argv[i + 1][0] != '-';
      options.self_test = says ? static_cast<std::uint32_t>(value(1, 1'000'000)) : 100'000;
    } else if (name == "--sockets") {
      options.sockets = static_cast<std::uint32_t>(value(0, kMostSockets));
    } else {
      std::fprintf(stderr, "echo: there is no option '%s'\n%s", argv[i], kUsage);
      std::exit(2);
    }
  }
  return options;
}

// Waits, by parking the task, for one of the signals that main() has blocked.
Result<void> stop_on_signal(Server& server, const sigset_t& signals) {
  ROTA_TRY_ASSIGN(Descriptor arriving, Descriptor::adopt(signalfd(-1, &signals, SFD_CLOEXEC)));
  signalfd_siginfo signal;
  ROTA_TRY(arriving.read_exactly(std::as_writable_bytes(std::span(&signal, 1))));
  std::printf("echo: stopping on signal %u\n", signal.ssi_signo);
  server.stop();
  return {};
}

int serve(const Options& options, const sigset_t& signals) {
  Server server(options.limits);
  if (const Result<void> bound = server.listen(options.port); !bound.ok()) {
    std::fprintf(stderr, "echo: %s\n", bound.error().to_string().c_str());
    return 1;
  }
  std::printf("echo: listening on 127.0.0.1:%u\n", server.port());
  std::fflush(stdout);
  Nursery nursery;
  nursery.launch([&] {
    if (const Result<void> waited = stop_on_signal(server, signals); !waited.ok()) {
      std::fprintf(stderr, "echo: waiting for signals: %s\n", waited.error().to_string().c_str());
      server.stop();
    }
  });
  server.run();
  const auto count = [&server](End how) { return static_cast<unsigned long long>(server.ended(how)); };
  std::printf("echo: %llu echoes; clients: %llu left, %llu silent, %llu flooding, %llu stopped, %llu broken\n",
              static_cast<unsigned long long>(server.echoes()), count(End::kLeft), count(End::kIdle),
              count(End::kFlooded), count(End::kStopped), count(End::kBroken));
  return nursery.close().ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // Blocked before the thread workers exist, so that the signals are blocked in every thread until a task reads them.
  if (options.self_test == 0) pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Config config;
  config.worker_count = options.workers;
  config.profile = Profile::kService;
  config.root_grant = Grant{.budget = Budget::unlimited()};  // The program itself; its clients get budgets.
  config.stack_bytes = 64 * 1024;  // Address space; a parked connection has touched a page or two of it.
  Runtime runtime(config);
  if (options.self_test != 0) return self_test(runtime, options.self_test, options.sockets);
  return runtime.run([&] { return serve(options, signals); });
}
