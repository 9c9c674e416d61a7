#pragma once

#include "data/file_io.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

/// A list of 64-bit numbers of any length on the disk: what would otherwise make memory grow with the corpus.
class Spool {
public:
  /// @param folder  where its nameless file lies
  explicit Spool(const std::string& folder);

  void append(std::span<const uint64_t> values);
  int64_t size() const { return written_ + static_cast<int64_t>(tail_.size()); }

  /// Fills `out` with the numbers from `begin` on. They must be there.
  void read(int64_t begin, std::span<uint64_t> out) const;

private:
  std::string folder_;
  FileHandle file_;
  int64_t written_ = 0;         // numbers in the file
  std::vector<uint64_t> tail_;  // numbers after those
};

}  // namespace gpt
