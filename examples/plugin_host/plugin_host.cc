// A host that loads plug-ins that it does not trust, and survives them. Each runs as a task with its own budget and
// only the capabilities that it is granted. The calls that the compiler inserts (rota_meter() in CMakeLists.txt) make
// even an endless loop share the thread worker, exhaust its budget and end; see docs/metering.md. Usage: plugin_host
// [plug-in...]
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin.h"
#include "rota/fiber.h"

using namespace rota::fiber;

namespace {

struct Plugin {
  const char* name;
  const char* expected;  // How it must end.
};
constexpr Plugin kPlugins[] = {
    {"honest", "returned"},       {"endless", "BudgetExhausted"},
    {"deaf", "BudgetExhausted"},  {"hog", "MemoryBudgetExhausted"},
    {"bomb", "CapabilityDenied"}, {"deep", "StackOverflow"},
    {"thrower", "threw"},
};

constexpr long kInput = 100'000;
constexpr Budget kBudget{.ops = 2'000'000, .memory = 1 << 20, .spawn_count = 100};
constexpr std::uint32_t kTasks = 8;  // A plug-in may have this many at a time, and they may not start others.

using Entry = long (*)(const Host&, long);

// A module is never unloaded: an exception that it threw may outlive its task.
Entry load(const std::string& folder, const char* name) {
  const std::string file = folder + "/" + name + ".so";
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = module == nullptr ? nullptr : dlsym(module, "plugin_run");
  if (entry == nullptr) throw std::runtime_error(std::string("cannot load it: ") + dlerror());
  return reinterpret_cast<Entry>(entry);
}

struct Report {
  std::string outcome;  // "returned", "threw", or the runtime's code.
  std::string detail;
  double took_ms = 0;
};

// Runs one plug-in in its own task, and returns whatever the plug-in does.
Report run_plugin(Entry entry) {
  Report report;
  // Frees what the plug-in leaves behind: it need not have freed anything. The charge for it ends with its task.
  MeteredResource charged;
  std::pmr::monotonic_buffer_resource memory(&charged);
  const Host host{&memory};
  const auto start = std::chrono::steady_clock::now();
  Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kCancel});
  const Grant grant{.budget = kBudget, .capabilities = Capabilities{.spawn = CapSpawn{.max_tasks = kTasks}}};
  auto task = nursery.spawn(grant, [entry, &host] { return entry(host, kInput); });
  try {
    report.detail = std::to_string(task.get());
    report.outcome = "returned";
  } catch (const FiberError& error) {  // The runtime ended it, or refused a request.
    report.outcome = rota::to_string(error.code());
    report.detail = error.what();
  } catch (const MemoryBudgetExhausted& error) {
    report.outcome = "MemoryBudgetExhausted";
    report.detail = error.what();
  } catch (const std::exception& error) {
    report.outcome = "threw";
    report.detail = error.what();
  } catch (...) {
    report.outcome = "threw";
    report.detail = "an exception that is not a std::exception";
  }
  (void)nursery.close();  // Returns the same error again.
  report.took_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return report;
}

const Plugin* find(const char* name) {
  for (const Plugin& plugin : kPlugins) {
    if (std::strcmp(plugin.name, name) == 0) return &plugin;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<const Plugin*> wanted;
  for (int i = 1; i < argc; ++i) {
    const bool help = std::strcmp(argv[i], "--help") == 0;
    const Plugin* plugin = find(argv[i]);
    if (help || plugin == nullptr) {
      std::FILE* to = help ? stdout : stderr;
      if (!help) std::fprintf(to, "plugin_host: there is no plug-in '%s'\n", argv[i]);
      std::fprintf(to, "usage: plugin_host [plug-in...; all of them]\nThe plug-ins are:");
      for (const Plugin& each : kPlugins) std::fprintf(to, " %s", each.name);
      std::fprintf(to, "\nReturns 0 if each ended as expected and no other task was harmed.\n");
      return help ? 0 : 2;
    }
    wanted.push_back(plugin);
  }
  if (wanted.empty()) {
    for (const Plugin& plugin : kPlugins) wanted.push_back(&plugin);
  }

  Config config;
  config.worker_count = 1;  // So that all tasks share one core.
  config.profile = Profile::kService;
  config.cancel_grace_ops = 100'000;
  Runtime runtime(config);

  int wrong = 0;
  std::printf("%-9s %-22s %9s  %s\n", "plug-in", "outcome", "ms", "what it said");
  for (const Plugin* plugin : wanted) {
    Report report;
    std::uint64_t rounds = 0;
    try {
      const Entry entry = load(ROTA_PLUGIN_FOLDER, plugin->name);
      runtime.run([&] {
        // The host has other work meanwhile, on the same thread worker.
        with_scope([&](Nursery& nursery) {
          auto other = nursery.spawn([&rounds] {
            while (!is_cancelled()) {
              ++rounds;
              yield();
            }
          });
          report = run_plugin(entry);
          other.cancel();
        });
      });
    } catch (const std::exception& error) {
      report.outcome = "host failed";
      report.detail = error.what();
    }
    const bool as_expected = report.outcome == plugin->expected;
    if (!as_expected) ++wrong;
    std::printf("%-9s %-22s %9.2f  %s%s\n", plugin->name, report.outcome.c_str(), report.took_ms, report.detail.c_str(),
                as_expected ? "" : "   <-- not what was expected");
    if (std::strcmp(plugin->name, "endless") == 0 && rounds < 100) {
      std::printf("          the host's other task was starved: %llu rounds\n",
                  static_cast<unsigned long long>(rounds));
      ++wrong;
    }
  }
  const bool balanced = runtime.audit().balanced();
  std::printf("%zu plug-ins, %d surprises; the host lives, and its books are %s.\n", wanted.size(), wrong,
              balanced ? "balanced" : "NOT balanced");
  return wrong == 0 && balanced ? 0 : 1;
}
