#include "everything.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "rota/janus.h"

namespace everything {

using namespace rota::fiber;
using namespace std::chrono_literals;

namespace {

std::string long_text(int i) { return "a text that does not fit into a string object: " + std::to_string(i); }

void spawns(Runtime&) {
  with_scope([](Nursery& nursery) {
    std::vector<Task<std::string>> tasks;
    for (int i = 0; i < 5; ++i) {
      const std::string text = long_text(i);
      tasks.push_back(nursery.spawn([text, i] {
        if (i % 2 == 0) yield();
        return text + "!";
      }));
    }
    std::vector<std::function<int()>> more(3, [text = long_text(9)] { return static_cast<int>(text.size()); });
    for (Task<int>& task : nursery.spawn_all(more)) (void)task.get();
    for (Task<std::string>& task : tasks) (void)task.get();
  });
}

void many_spawns(Runtime&) {
  with_scope([](Nursery& nursery) {
    for (int i = 0; i < 600; ++i) nursery.launch([] {});  // The deque grows.
  });
}

void failures(Runtime&) {
  try {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 3; ++i) nursery.launch([] { (void)sleep_for(1h); });
      nursery.launch([] { throw std::runtime_error(long_text(1)); });
    });
  } catch (const std::runtime_error&) {
  }
}

void forks(Runtime&) {
  struct Fib {
    static long of(long n) {
      if (n < 2) return n;
      auto [a, b] = both([n] { return of(n - 1); }, [n] { return of(n - 2); });
      return a + b;
    }
  };
  (void)Fib::of(8);
}

void waits(Runtime&) {
  Mutex mutex;
  Semaphore seats(1);
  Event event;
  WaitGroup group;
  with_scope([&](Nursery& nursery) {
    for (int i = 0; i < 4; ++i) {
      group.add(1);
      struct Done {
        ~Done() { group.done(); }
        WaitGroup& group;
      };
      nursery.launch([&, done = std::make_unique<Done>(group)] {
        event.wait();
        const std::lock_guard lock(mutex);
        seats.acquire();
        yield();
        seats.release();
      });
    }
    event.set();
    group.wait();
  });
}

void times(Runtime&) {
  (void)sleep_for(10us);
  (void)with_deadline(100us, [](Nursery& nursery) {
    nursery.launch([] { (void)sleep_for(1h); });
    return nursery.spawn([] { return 1; }).get();
  });
  with_scope([](Nursery& nursery) {
    Task<void> task = nursery.spawn([] { (void)sleep_for(1h); });
    (void)task.wait_for(50us);
    task.cancel();
    task.wait();
  });
}

void channels(Runtime&) {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{3}}) {
    with_scope([capacity](Nursery& nursery) {
      Channel<std::string> channel(capacity);
      struct Close {
        ~Close() { channel.close(); }
        Channel<std::string> channel;
      };
      nursery.launch([close = std::make_unique<Close>(channel)] {
        for (int i = 0; i < 10; ++i) (void)close->channel.send(long_text(i));
      });
      for (const std::string& text : channel) (void)text;
    });
  }
  Channel<std::string> unbounded = Channel<std::string>::unbounded();
  for (int i = 0; i < 100; ++i) (void)unbounded.send(long_text(i));
  while (unbounded.try_receive()) {
  }
}

void selects(Runtime&) {
  Channel<int> a, b;
  with_scope([&](Nursery& nursery) {
    nursery.launch([a] { (void)a.send(1); });
    select(on_receive(a, [](std::optional<int>) {}), on_receive(b, [](std::optional<int>) {}), after(1s, [] {}));
    select(on_receive(a, [](std::optional<int>) {}), after(10us, [] {}));
    select(on_send(a, 1, [] {}), otherwise([] {}));
  });
}

void tokens(Runtime&) {
  CancelToken root;
  CancelToken middle({root});
  CancelToken leaf({middle, root});
  int called = 0;
  for (int i = 0; i < 5; ++i) leaf.on_cancel([&called, text = long_text(i)] { ++called; });
  const std::uint64_t id = middle.on_cancel([] {});
  (void)middle.off_cancel(id);
  with_scope([&](Nursery& nursery) {
    Task<void> task = nursery.spawn_cancellable([&](CancelToken& token) {
      CancelToken below({token, root});
      while (!below.is_cancelled()) yield();
    });
    for (int i = 0; i < 3; ++i) yield();
    root.cancel();
    task.wait();
  });
}

void calls(Runtime&) {
  (void)blocking([] { return long_text(1); });
  with_scope([](Nursery& nursery) {
    for (int i = 0; i < 3; ++i) nursery.launch([i] { (void)blocking([i] { return long_text(i); }); });
  });
}

void sockets(Runtime&) {
  rota::Result<TcpListener> listener = TcpListener::bind("127.0.0.1", 0);
  if (!listener.ok()) return;
  with_scope([&](Nursery& nursery) {
    nursery.launch([&] {
      rota::Result<TcpStream> client = listener->accept(1s);
      std::byte buffer[64];
      if (!client.ok()) return;
      const rota::Result<std::size_t> count = client->read_some(buffer, 1s);
      if (count.ok()) (void)client->write_all(std::span(buffer, *count), 1s);
    });
    rota::Result<TcpStream> stream = TcpStream::connect("127.0.0.1", listener->local_address().port(), 1s);
    if (!stream.ok()) return;
    (void)stream->write_all("hello", 1s);
    std::byte buffer[64];
    (void)stream->read_some(buffer, 1s);
  });
}

void files(Runtime&) {
  (void)read_file("/proc/self/statm");
  (void)read_file("/no/such/file");
}

struct Counter {
  int count = 0;
  void receive(const std::string& text) {
    if (++count == 2) throw std::runtime_error(text);
  }
};

void actors(Runtime&) {
  with_actors({.max_restarts = 5}, [](ActorSupervisor& supervisor) {
    Actor<std::string> one = supervisor.start<std::string>("one", [] { return Counter(); });
    Actor<std::string> two = supervisor.start<std::string>("two", [] { return Counter(); });
    for (int i = 0; i < 4; ++i) {
      (void)one.tell(long_text(i));
      (void)two.tell(long_text(i));
    }
  });
}

void budgets(Runtime& runtime) {
  Nursery nursery(NurseryOptions{.pool = Reserve{50'000, 1 << 20, 100, 100, 100},
                                 .default_child = Budget{.ops = 1000, .memory = 4096},
                                 .on_exhausted = OnExhausted::kRecharge});
  const Supervisor supervisor = nursery.supervisor();
  Task<void> spends = nursery.spawn([] {
    tick(3000);
    MeteredResource memory;
    memory.deallocate(memory.allocate(100), 100);
  });
  Task<void> ends = nursery.spawn(Grant{.budget = Budget{.ops = 100}, .capabilities = Capabilities{}}, [&runtime] {
    try {
      (void)runtime.spawn([] {});
    } catch (const FiberError&) {
    }
    for (int i = 0; i < 200; ++i) tick();
  });
  spends.wait();
  ends.wait();
  (void)supervisor.audit();
  (void)nursery.close();
}

void from_outside(Runtime& runtime) {
  std::vector<Task<std::string>> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.push_back(runtime.spawn([i] {
      yield();
      return long_text(i);
    }));
  }
  for (Task<std::string>& task : tasks) (void)task.get();
}

void* c_child(void* channel) {
  (void)janus_channel_send(*static_cast<JanusChannel*>(channel), nullptr, JANUS_FOREVER);
  return nullptr;
}
void c_called(void*) {}

void c_interface(Runtime&) {
  JanusNursery nursery = 0;
  if (janus_nursery_open(nullptr, &nursery) != JANUS_OK) return;
  JanusChannel channel = 0;
  JanusToken token = 0, own = 0;
  if (janus_channel_create(1, &channel) == JANUS_OK) {
    JanusTask task = 0;
    if (janus_nursery_spawn(nursery, reinterpret_cast<void*>(&c_child), &channel, nullptr, &task) == JANUS_OK) {
      void* value = nullptr;
      (void)janus_channel_receive(channel, &value, 1'000'000);
      (void)janus_task_join(task, nullptr, nullptr);
    }
    (void)janus_nursery_close(nursery);
    (void)janus_task_release(task);
    (void)janus_channel_release(channel);
  } else {
    (void)janus_nursery_close(nursery);
  }
  if (janus_token_create(&token) == JANUS_OK) {
    if (janus_token_current(&own) == JANUS_OK) {
      (void)janus_token_link(token, own);
      (void)janus_token_release(own);
    }
    (void)janus_token_on_cancel(token, c_called, nullptr, nullptr);
    (void)janus_token_cancel(token);
    (void)janus_token_release(token);
  }
}

}  // namespace

const Step kSteps[] = {
    {"spawns", spawns},
    {"many spawns", many_spawns},
    {"failures", failures},
    {"forks", forks},
    {"waits", waits},
    {"times", times},
    {"channels", channels},
    {"selects", selects},
    {"tokens", tokens},
    {"calls", calls},
    {"sockets", sockets},
    {"files", files},
    {"actors", actors},
    {"budgets", budgets},
    {"from outside", from_outside},
    {"C", c_interface},
};
const int kStepCount = sizeof(kSteps) / sizeof(kSteps[0]);

}  // namespace everything
