#include "ckpt/table.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace gpt {

std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      const bool at_right = std::ranges::count(right, column) > 0;
      if (column > 0) line += "  ";
      line += at_right ? fmt::format("{:>{}}", row[column], widths[column])
                       : fmt::format("{:<{}}", row[column], widths[column]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace gpt
