// Looks up the values of a task's secrets when its program starts (U-7): in a directory (base/secret_file.h), with a
// command that the worker runs, in the worker's environment, or at the host. The first source that has a secret
// decides; a value is not kept, so a changed secret is seen by the next program.
//
//   command        run as `sh -c`, with the secret's name in $ROTA_SECRET and its version, or nothing, in
//                  $ROTA_SECRET_VERSION; the value is what it prints, without one line feed at the end. Any exit status
//                  but 0 means that it has none. It is killed after 30 s.
//   environment    the variable ROTA_SECRET_HF for `hf`, ROTA_SECRET_HF_2 for its version 2: programs never inherit a
//                  worker's variables that begin with ROTA_.
//
// Thread safety: find() from any task; it waits.
#pragma once

#include <string>

#include "model/message.h"
#include "model/task_spec.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::worker {

class Secrets {
 public:
  explicit Secrets(SecretSources sources) : sources_(std::move(sources)) {}

  // NotFound, with the secret's name and everywhere that it was looked for; Cancelled. No error has a part of a value.
  [[nodiscard]] Result<std::string> find(const model::SecretVariable& variable, const model::AttemptId& attempt) const;

 private:
  const SecretSources sources_;
};

// "ROTA_SECRET_HF_2" for `hf`, version `2`.
[[nodiscard]] std::string secret_variable(const std::string& name, const std::string& version);

// Runs the command on this thread. NotFound if it fails, prints nothing that a secret can be, or takes too long.
[[nodiscard]] Result<std::string> secret_of_command(const std::string& command, const std::string& name,
                                                    const std::string& version,
                                                    std::chrono::milliseconds most = std::chrono::seconds(30));

}  // namespace rota::worker
