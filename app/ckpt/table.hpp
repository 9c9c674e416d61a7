#pragma once

#include <string>
#include <vector>

namespace gpt {

/// Rows of the same length as lines, columns padded to their widest entry. @param right  columns of numbers,
/// which end at the same place
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         const std::vector<size_t>& right = {});

}  // namespace gpt
