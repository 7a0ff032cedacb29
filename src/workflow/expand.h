// Expands a workflow file before it is read (Y-1, Y-7): what `include`, `templates`, `use`, `env_file` and `params`
// stand for takes their place, and the result is a document that has none of them. Each value keeps the position at
// which it is written, in whichever file.
//
//   include    files below the workflow's folder. Their params, templates and stages come before the file's own.
//   use        the keys of one or several templates; the stage's own keys come first. env, inputs, resources, limits,
//              retry and context are merged key by key.
//   env_file   lines NAME=value; `env` of the same stage, or of `spec`, overrides them.
//   params     ${params.x} in any value. In `run` text for a shell it stays a reference, which stage.cc makes a
//              variable, so that data never becomes code.
//
// Bounds: kMostIncludes files of 16 MiB together; the expanded document has those of document.h.
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <optional>

#include "workflow/document.h"
#include "workflow/params.h"
#include "workflow/workflow.h"

namespace rota::workflow {

inline constexpr std::size_t kMostIncludes = 100;

// Whether there may be anything to expand. It looks at the text only, and files without it are not copied.
[[nodiscard]] bool may_expand(const Source& source);
// Nothing if a bound was reached, which is reported. `params` gets the parameters with their values.
[[nodiscard]] std::optional<Document> expand(const Source& source, const Document& document, Problems& problems,
                                             Params& params);

}  // namespace rota::workflow
