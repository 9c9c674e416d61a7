#pragma once

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <vector>

namespace gpt {

/// "0", "0, 2", "0, 2, 3, 4, 5, 6, 7, 8 and 12 more": a message stays readable however many there are.
template <class Item>
std::string list_some(const std::vector<Item>& items) {
  constexpr size_t most = 8;
  const size_t named = std::min(items.size(), most);
  std::string text =
      fmt::format("{}", fmt::join(items.begin(), items.begin() + static_cast<ptrdiff_t>(named), ", "));
  if (items.size() > named) text += fmt::format(" and {} more", items.size() - named);
  return text;
}

}  // namespace gpt
