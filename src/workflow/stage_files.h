// `outputs` and `fetch`: files that go from stage to stage (U-6).
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/workflow_spec.h"
#include "workflow/fields.h"
#include "workflow/stage.h"

namespace rota::workflow {

// Reads both keys into `draft`. `directory`: where the files of a handler are. Returns how many bytes of text they
// have.
std::size_t read_files(Reading& reading, const Fields& fields, std::string_view directory, StageDraft& draft);

// When the tasks of the stage are known: several tasks must not store files under one name.
void check_outputs(Reading& reading, const Fields& fields, const StageDraft& draft);

// When all stages are known: stages without outputs are not fetched, and no two of them into the same file.
void check_fetches(Problems& problems, const model::WorkflowSpec& spec, std::uint32_t stage,
                   const std::vector<PlacedFetch>& fetches);

}  // namespace rota::workflow
