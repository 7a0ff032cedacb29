#include "model/matrix.h"

#include <algorithm>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::model {

namespace {

Error too_many(std::size_t most) {
  return Error{ErrorCode::kTooLarge, "the matrix has more than " + std::to_string(most) + " combinations"};
}

Error too_long(std::size_t most_bytes) {
  return Error{ErrorCode::kTooLarge, "the items of the matrix have more than " + std::to_string(most_bytes) + " bytes"}
      .with("bytes", std::to_string(most_bytes));
}

bool has(const MatrixEntry& combination, const MatrixValue& value) {
  return std::find(combination.begin(), combination.end(), value) != combination.end();
}

bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Calls `one` with the positions in the lists for every combination. REQUIRES: no list is empty.
template <class F>
Result<void> each_combination(const Matrix& matrix, F&& one) {
  std::vector<std::size_t> at(matrix.values.size());
  for (;;) {
    ROTA_TRY(one(at));
    std::size_t digit = at.size();
    while (digit > 0 && ++at[digit - 1] == matrix.values[digit - 1].size()) at[--digit] = 0;
    if (digit == 0) return {};
  }
}

Result<std::size_t> combinations_of(const Matrix& matrix, std::size_t most) {
  std::size_t count = matrix.names.empty() ? 0 : 1;
  for (const auto& list : matrix.values) {
    if (!list.empty() && count > most / list.size()) return too_many(most);
    count *= list.size();
  }
  return count;
}

Result<std::vector<MatrixEntry>> product_of(const Matrix& matrix, std::size_t most_bytes) {
  std::vector<MatrixEntry> all;
  std::size_t bytes = 0;
  ROTA_TRY(each_combination(matrix, [&](const std::vector<std::size_t>& at) -> Result<void> {
    MatrixEntry& one = all.emplace_back();
    for (std::size_t i = 0; i < at.size(); ++i) {
      bytes += matrix.values[i][at[i]].size();
      one.emplace_back(matrix.names[i], matrix.values[i][at[i]]);
    }
    return bytes > most_bytes ? Result<void>(too_long(most_bytes)) : Result<void>();
  }));
  return all;
}

// Without `include` and `exclude`, each item is written at once.
Result<std::vector<std::string>> plain_items(const Matrix& matrix, std::size_t count, std::size_t most_bytes) {
  std::vector<std::string> names;  // With the colon.
  for (const std::string& name : matrix.names) {
    append_json_string(names.emplace_back(), name);
    names.back().push_back(':');
  }
  std::vector<std::string> items;
  items.reserve(count);
  std::size_t bytes = 0;
  ROTA_TRY(each_combination(matrix, [&](const std::vector<std::size_t>& at) -> Result<void> {
    std::string& item = items.emplace_back("{");
    for (std::size_t i = 0; i < at.size(); ++i) {
      item.append(i > 0 ? "," : "").append(names[i]).append(matrix.values[i][at[i]]);
    }
    item.push_back('}');
    bytes += item.size();
    return bytes > most_bytes ? Result<void>(too_long(most_bytes)) : Result<void>();
  }));
  return items;
}

void include_entry(const Matrix& matrix, const MatrixEntry& entry, std::size_t products,
                   std::vector<MatrixEntry>& combinations) {
  bool added = false;
  for (std::size_t c = 0; c < products; ++c) {
    MatrixEntry& combination = combinations[c];
    const bool fits = std::all_of(entry.begin(), entry.end(), [&](const MatrixValue& value) {
      return !has_name(matrix.names, value.first) || has(combination, value);
    });
    if (!fits) continue;
    added = true;
    for (const MatrixValue& value : entry) {
      if (has_name(matrix.names, value.first)) continue;
      std::erase_if(combination, [&](const MatrixValue& known) { return known.first == value.first; });
      combination.push_back(value);
    }
  }
  if (!added) combinations.push_back(entry);
}

}  // namespace

Result<MatrixEntry> matrix_entry(std::string_view object) {
  ROTA_TRY(json_validate(object));
  if (json_kind(object) != JsonKind::kObject) {
    return Error{ErrorCode::kInvalidArgument, "an entry of a matrix is not a JSON object"};
  }
  MatrixEntry entry;
  for (const auto& [name, value] : json_members(object)) {
    ROTA_TRY_ASSIGN(std::string written, json_minify(value));
    entry.emplace_back(name, std::move(written));
  }
  return entry;
}

Result<std::vector<std::string>> matrix_items(const Matrix& matrix, std::size_t most, std::size_t most_bytes) {
  ROTA_TRY_ASSIGN(const std::size_t count, combinations_of(matrix, most));
  if (count > 0 && matrix.include.empty() && matrix.exclude.empty()) return plain_items(matrix, count, most_bytes);
  std::vector<MatrixEntry> combinations;
  if (count > 0) {
    ROTA_TRY_ASSIGN(combinations, product_of(matrix, most_bytes));
  }
  for (const MatrixEntry& entry : matrix.exclude) {
    std::erase_if(combinations, [&](const MatrixEntry& combination) {
      return std::all_of(entry.begin(), entry.end(), [&](const MatrixValue& value) { return has(combination, value); });
    });
  }
  const std::size_t products = combinations.size();
  std::vector<std::string> names = matrix.names;
  for (const MatrixEntry& entry : matrix.include) {
    include_entry(matrix, entry, products, combinations);
    for (const MatrixValue& value : entry) {
      if (!has_name(names, value.first)) names.push_back(value.first);
    }
  }
  if (combinations.size() > most) return too_many(most);
  std::vector<std::string> items;
  items.reserve(combinations.size());
  std::size_t bytes = 0;
  for (const MatrixEntry& combination : combinations) {
    std::string item = "{";
    for (const std::string& name : names) {
      const auto found = std::find_if(combination.begin(), combination.end(),
                                      [&](const MatrixValue& value) { return value.first == name; });
      item.append(item.size() > 1 ? "," : "");
      append_json_string(item, name);
      item.append(":").append(found != combination.end() ? found->second : "null");
    }
    bytes += item.size() + 1;
    if (bytes > most_bytes) return too_long(most_bytes);
    items.push_back(item + "}");
  }
  return items;
}

}  // namespace rota::model
