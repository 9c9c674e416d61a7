#include "data/record_sorter.hpp"

#include "base/philox.hpp"
#include "data/permutation.hpp"
#include "support/scratch_folder.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace gpt {
namespace {

/// Records of all lengths below `longest`, each beginning with its place.
std::string record(int64_t place, int64_t longest) {
  std::string text = std::to_string(place) + ' ';
  text.resize(text.size() + random_bits(3, static_cast<uint64_t>(place)) % static_cast<uint64_t>(longest),
              'x');
  return text;
}

/// How many records come back at their places.
int64_t in_place(int64_t records, int64_t longest, int64_t announced_bytes) {
  const test::ScratchFolder folder;
  RecordSorter sorter(folder.path(), records, announced_bytes);
  const Permutation order(records, 7);
  for (int64_t i = 0; i < records; ++i) sorter.put(order(i), record(order(i), longest));
  int64_t place = 0, right = 0;
  sorter.visit([&](std::string_view found) { right += found == record(place++, longest); });
  CHECK(place == records);
  return right;
}

}  // namespace

TEST_CASE("records come back in the order of their places") {
  for (const int64_t records : {1, 2, 3, 1000, 1025}) {
    CAPTURE(records);
    CHECK(in_place(records, 10, 0) == records);
    CHECK(in_place(records, 10, records << 20) == records);  // a record in a bucket
  }
}

TEST_CASE("records that do not fit into memory come back from the disk") {
  constexpr int64_t records = 40'000, longest = 3'000;  // 60 MB
  CHECK(in_place(records, longest, records * longest / 2) == records);
  CHECK(in_place(records, longest, 0) == records);  // one bucket, whatever was announced
}

}  // namespace gpt
