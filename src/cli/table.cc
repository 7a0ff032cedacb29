#include "cli/table.h"

#include <algorithm>

#include "cli/terminal.h"

namespace rota::cli {

namespace {

constexpr std::size_t kLeastFirst = 16;  // Columns of a shortened cell.
constexpr std::size_t kGap = 2;          // Between two columns.

}  // namespace

std::string Table::fitted(std::size_t columns, std::span<const std::size_t> optional) const {
  Table table = *this;
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::size_t others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) others += widths[i] + kGap;
  std::vector<std::size_t> gone;
  for (const std::size_t each : optional) {
    if (widths.empty() || others + std::min(widths.front(), kLeastFirst) <= columns) break;
    if (each >= widths.size()) continue;
    others -= widths[each] + kGap;
    gone.push_back(each);
  }
  std::sort(gone.rbegin(), gone.rend());
  for (auto& row : table.rows_) {
    for (const std::size_t each : gone) {
      if (each < row.size()) row.erase(row.begin() + static_cast<std::ptrdiff_t>(each));
    }
    if (!row.empty()) row.front() = fit_middle(row.front(), columns > others ? columns - others : 1);
  }
  return table.text();
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - display_width(row[i]), ' ');
      if (i > 0) line.append(kGap, ' ');
      line += i > 0 && rest_ == Align::kRight ? space + row[i] : row[i] + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace rota::cli
