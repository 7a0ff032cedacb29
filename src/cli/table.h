// Table: rows of text in aligned columns.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rota::cli {

class Table {
 public:
  enum class Align { kLeft, kRight };

  // `rest` is the alignment of the columns after the first, which is always aligned to the left.
  explicit Table(Align rest = Align::kLeft) : rest_(rest) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  // One line per row, without spaces at its end. A column is as wide as its widest cell.
  [[nodiscard]] std::string text() const;
  // The same in at most `columns` columns, as far as possible: leaves out columns of the table, in the order in which
  // `optional` names them, as long as there is no room for the first one; then shortens the cells of the first one in
  // the middle.
  [[nodiscard]] std::string fitted(std::size_t columns, std::span<const std::size_t> optional) const;

 private:
  Align rest_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rota::cli
