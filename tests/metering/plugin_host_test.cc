// examples/plugin_host as its user runs it: each plug-in ends as it must, and the host says so and lives.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace {

struct Said {
  int status = -1;
  std::string text;
};

Said run_host(const std::string& arguments) {
  Said said;
  // Under AddressSanitizer: what a plug-in had allocated whose frames were left is lost, and that is no finding.
  const std::string command = "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 " ROTA_PLUGIN_HOST " " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return said;
  char line[4096];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) said.text += line;
  const int status = pclose(pipe);
  if (WIFEXITED(status)) said.status = WEXITSTATUS(status);
  return said;
}

void expect_outcome(const std::string& plugin, const std::string& outcome) {
  const Said said = run_host(plugin);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_NE(said.text.find(outcome), std::string::npos) << said.text;
  EXPECT_NE(said.text.find("the host lives, and its books are balanced"), std::string::npos) << said.text;
}

#if defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
#define ROTA_NEEDS_ABANDONING() GTEST_SKIP() << "frames cannot be left without unwinding here"
#else
#define ROTA_NEEDS_ABANDONING() (void)0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !(defined(__x86_64__) || defined(__aarch64__))
#define ROTA_NEEDS_OVERFLOWS() GTEST_SKIP() << "an overflow is not survived here"
#else
#define ROTA_NEEDS_OVERFLOWS() (void)0
#endif

// Contract: F-13. An honest plug-in does not notice.
TEST(PluginHost, Honest) { expect_outcome("honest", "9592"); }

// Contract: F-11, F-13. A loop without end runs out; the host's other task, on the same worker, goes on meanwhile.
TEST(PluginHost, Endless) {
  ROTA_NEEDS_ABANDONING();
  expect_outcome("endless", "BudgetExhausted");
}

// Contract: F-11, F-13. So does one that swallows exceptions in a destructor.
TEST(PluginHost, Deaf) {
  ROTA_NEEDS_ABANDONING();
  expect_outcome("deaf", "BudgetExhausted");
}

// Contract: F-13, F-16. Memory ends where the budget does.
TEST(PluginHost, Hog) { expect_outcome("hog", "MemoryBudgetExhausted"); }

// Contract: F-14. Tasks end where the capability does.
TEST(PluginHost, Bomb) { expect_outcome("bomb", "CapabilityDenied"); }

// Contract: F-23. A stack that overflows is the plug-in's end only.
TEST(PluginHost, Deep) {
  ROTA_NEEDS_OVERFLOWS();
  expect_outcome("deep", "StackOverflow");
}

// Contract: F-3. An exception is the plug-in's outcome.
TEST(PluginHost, Thrower) { expect_outcome("thrower", "I never wanted to be a plug-in"); }

// Contract: F-11, F-13, F-14, F-23. All of them, one after the other, in one host.
TEST(PluginHost, SurvivesAll) {
  ROTA_NEEDS_OVERFLOWS();
  expect_outcome("", "7 plug-ins, 0 surprises");
}

TEST(PluginHost, SaysWhatItTakes) {
  const Said help = run_host("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.text.rfind("usage: plugin_host", 0), 0U) << help.text;
  const Said unknown = run_host("teapot");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.text.find("there is no plug-in 'teapot'"), std::string::npos) << unknown.text;
}

}  // namespace
