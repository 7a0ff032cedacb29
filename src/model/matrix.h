// The items of a matrix: every combination of its lists, without those of `exclude`, with what `include` adds (Y-2).
//
// The reader of workflow files uses it for lists that are written there, and the brain for lists that are the results
// of tasks: both give the same items.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/result.h"

namespace rota::model {

// A name of the matrix and a value as canonical JSON.
using MatrixValue = std::pair<std::string, std::string>;
// The values of one combination, or of one entry of `include` or `exclude`.
using MatrixEntry = std::vector<MatrixValue>;

// The members of a JSON object, with canonical values. kParseError, kInvalidArgument: it is none.
Result<MatrixEntry> matrix_entry(std::string_view object);

struct Matrix {
  std::vector<std::string> names{};                // One for each list.
  std::vector<std::vector<std::string>> values{};  // Of each list, as canonical JSON; may be empty.
  std::vector<MatrixEntry> include{};
  std::vector<MatrixEntry> exclude{};  // Only with names of lists.
};

// The items, each a canonical JSON object with all names of the matrix; the last list varies fastest. As GitHub's
// matrix: an entry of `exclude` removes the combinations that have its values; an entry of `include` adds its values to
// the combinations whose values it does not change, or is an item of its own if there is none. kTooLarge: the lists
// have more than `most` combinations, or there are more items; with the detail "bytes": the items have more than
// `most_bytes`.
Result<std::vector<std::string>> matrix_items(const Matrix& matrix, std::size_t most, std::size_t most_bytes);

}  // namespace rota::model
