#pragma once

#include "data/file_io.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// Short records that come in one order and are wanted in another, without a search on the disk for each:
/// they are spread over buckets by their places, in a nameless file, and bucket by bucket put in order in
/// memory.
///
/// Memory: some 32 MiB, which the file is not used below, and a bucket, which has 256 KiB or a
/// four-thousandth of all records, whichever is more.
class RecordSorter {
public:
  /// @param folder   where the file lies
  /// @param records  how many will come, at least 1
  /// @param bytes    of all of them, about
  RecordSorter(const std::string& folder, int64_t records, int64_t bytes);

  /// @param place   of the record in the order that is wanted: each in [0, records) once
  /// @param record  of less than 2^32 bytes
  void put(int64_t place, std::string_view record);

  /// Every record, in the order of their places, once all are there.
  void visit(const std::function<void(std::string_view)>& visitor);

private:
  struct Piece {
    int64_t offset, bytes;  // in the file
  };
  struct Bucket {
    std::string waiting;  // records that are not in the file yet
    std::vector<Piece> pieces;
  };

  void write(Bucket& bucket);
  /// All records of a bucket; in `contents`, unless they are in memory.
  std::string_view read(const Bucket& bucket, std::string& contents) const;

  std::string folder_;
  FileHandle file_;
  int64_t written_ = 0;
  int64_t records_;
  size_t most_waiting_ = 0;  // bytes of a bucket
  int place_bits_;           // a bucket has 2^place_bits_ places
  std::vector<Bucket> buckets_;
};

}  // namespace gpt
