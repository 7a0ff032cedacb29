// A worker of your own: it joins a fleet over Redis and runs the handler "square" until SIGTERM.
//
//   rota host --redis redis://127.0.0.1 &
//   build/dev/examples/squares redis://127.0.0.1 &
//   rota submit squares.yaml --wait
//
// with squares.yaml:
//
//   apiVersion: rota/v1
//   spec:
//     stages:
//       - name: squares
//         handler: square
//         matrix: {n: [1, 2, 3]}
//         inputs: {n: "${matrix.n}"}
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rota/fiber.h"
#include "rota/worker.h"

namespace {

volatile std::sig_atomic_t stop_wanted = 0;

extern "C" void on_signal(int) { stop_wanted = 1; }

// The value of "n" in {"n": 7}. A real handler would use a JSON library.
long number_in(const std::string& inputs) {
  const std::size_t at = inputs.find(':');
  return at == std::string::npos ? 0 : std::strtol(inputs.c_str() + at + 1, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  rota::fiber::Runtime runtime({.worker_count = 1});
  const rota::Result<void> left = runtime.run([&] {
    rota::WorkerOptions options;
    options.spec.name = argc > 2 ? argv[2] : "squares";
    options.spec.programs = false;  // Handlers only.
    options.heartbeat_every = 1s;
    rota::Worker worker(options);
    worker
        .handle("square",
                [](rota::TaskContext& task) {
                  const long n = number_in(task.inputs());
                  task.progress(50, "multiplying");
                  return std::to_string(n * n);
                })
        .value();
    rota::Result<void> joined;
    rota::fiber::with_scope([&](rota::fiber::Nursery& nursery) {
      rota::fiber::Task<void> watching = nursery.spawn([&] {
        while (stop_wanted == 0) {
          if (!rota::fiber::sleep_for(50ms).ok()) return;
        }
        worker.stop();
      });
      joined = worker.join({.redis = argc > 1 ? argv[1] : "redis://127.0.0.1"});
      watching.cancel();
    });
    return joined;
  });
  if (!left.ok()) std::fprintf(stderr, "squares: %s\n", left.error().message.c_str());
  return left.ok() ? 0 : 1;
}
