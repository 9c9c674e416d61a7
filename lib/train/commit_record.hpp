#pragma once

#include "base/integers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

/// The last 4 KiB of a checkpoint, appended behind HDF5's end of the file and written last: a file that has
/// it is whole. Byte table in docs/checkpoint-format.md.
struct CommitRecord {
  static constexpr int64_t bytes = 4096;
  static constexpr int64_t format = 1;
  static constexpr int64_t most_extents = 250;

  int64_t step = 0;
  uint64_t run_id = 0;
  int64_t branch = 0;
  int64_t parent_step = -1;
  int64_t file_size = 0;  ///< of the whole file, this record included
  uint64_t digest = 0;    ///< XXH3-64 of all bytes before the record that lie in no extent, in file order
  std::vector<Range> extents;  ///< bytes that block checksums cover: ascending, apart from each other

  bool operator==(const CommitRecord&) const = default;
};

std::array<std::byte, CommitRecord::bytes> encode_commit_record(const CommitRecord& record);

/// @param raw  the last CommitRecord::bytes of a file of `file_size` bytes
/// @throws Error(damaged) with what is wrong, in a sentence that does not name the file
CommitRecord decode_commit_record(std::span<const std::byte> raw, int64_t file_size);

/// One small read. @throws Error(damaged) as decode_commit_record, or saying that the file cannot be read
CommitRecord read_commit_record(const std::string& file);

/// The digest of the file as it is now: reads every byte before the record that lies in no extent.
uint64_t digest_of_rest(const std::string& file, const CommitRecord& record);

/// @throws Error(damaged) in a sentence that does not name the file, unless the digest is as committed
void verify_digest(const std::string& file, const CommitRecord& record);

/// The digest of `file`'s first `end` bytes, for when there is no record yet.
uint64_t digest_of_rest(const std::string& file, int64_t end, const std::vector<Range>& extents);

}  // namespace gpt
