// The language of src/fleet/scenarios/*.txt: scripts of commands with the events that follow from them.
//
//   # A line for people.
//   at 1500ms worker a cpu=4 mem=8GiB gpu=2x80GiB:h100 zone=z cost=2.5
//   workflow render user=ann
//     stage cut cpu=1
//     stage join needs=cut items=3 inputs='{"from": "${cut.result.path}"}'
//   ----
//   WorkerRegistered worker=worker-1
//   ...
//
// A block is its commands, a line with ----, what is expected, and an empty line. A command is one line; indented lines
// after it belong to it. In front of a command `at DURATION` (since the start) or `after DURATION` (since the command
// before) sets the time; otherwise a millisecond passes before each. A value with spaces is in quotes of either kind.
//
//   worker NAME [cpu= mem= gpu= named=licence:2 zone= cost= cap=a,b label=k:v,k:v cache=model:m,dataset:d life=
//               handlers=a,b no_programs]
//   workflow NAME [user= priority= key= deadline= fail_fast]     with lines
//     stage NAME [needs=a,b items=N priority= type= category= inputs= cpu= mem= gpu= named= zone= cap= label=
//     context=a,b outputs=a,b fetch=a,b (stages) if=
//                 attempts= backoff= backoff_most= memory_factor= timeout= pin= mergeable preemptible gang handler
//                 batch when= finally parallel= each=name (for all that it needs)]
//       A stage runs a program unless it says `handler`: then it runs the handler of its type.
//   ok TASK [result=JSON] [reused]   fail TASK [MESSAGE] [kind=K] [final] [batch]      stopped TASK
//       (each: note= started_ns= ended_ns=; ok: files=PATH:SHA256:BYTES,...)
//   checkpoint TASK JSON             undeliverable TASK                        (each: attempt=N, by default the latest)
//   pause | resume | cancel | retry  WORKFLOW or TASK         priority WORKFLOW-or-TASK NUMBER       forget WORKFLOW
//   policy FIELD=VALUE...            changes these of the policy in force
//   quota USER [weight= cpu= mem= named= gpus= tasks=]
//   heartbeat NAME... | heartbeat all    drain NAME    lost NAME [REASON]    enable NAME [auto]    disable NAME
//   caches NAME ITEM...                  tick
//   Command field=value...           any command as in fleet/text.h
//   show TASK or WORKFLOW or NAME    changes nothing: its state (of NAME: a worker)
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/command.h"
#include "fleet/state.h"
#include "rota/result.h"

namespace rota::fleet::testing_support {

// One line, cut into its words.
struct ScriptLine {
  int number = 0;
  std::string text{};
  std::vector<std::string> words{};            // Without a name: "worker", "a".
  std::map<std::string, std::string> named{};  // name=value
};

struct ScriptCommand {
  ScriptLine line{};
  std::vector<ScriptLine> inside{};  // Its indented lines.
};

struct ScriptBlock {
  std::vector<std::string> before{};    // Comments and empty lines, as they are.
  std::vector<std::string> commands{};  // As they are.
  std::vector<ScriptCommand> parsed{};
  std::string expected{};  // Lines, each with its end.
};

[[nodiscard]] Result<std::vector<ScriptBlock>> parse_script(std::string_view text, std::vector<std::string>& after);

// Takes `at` or `after` off the front of a line, and moves the time.
[[nodiscard]] Result<void> take_time(ScriptLine& line, std::int64_t start_ns, std::int64_t& now_ns);

// The command that a line means, in this state.
[[nodiscard]] Result<Command> script_command(const ScriptCommand& script, const State& state);

}  // namespace rota::fleet::testing_support
