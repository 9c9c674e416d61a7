#include "base/error.hpp"
#include "bench/byte_size.hpp"
#include "bench/known_sums.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

template <class T>
Tensor tensor(std::vector<T>& values) {
  return {values.data(), dtype_of<T>(), {static_cast<int64_t>(values.size())}};
}

// What every rank contributes, added in T in the order of the ranks.
template <class T>
std::vector<T> summed(int ranks, size_t count) {
  std::vector<T> sum(count), part(count);
  for (int rank = 0; rank < ranks; ++rank) {
    KnownSums(rank, ranks).fill(tensor(part));
    for (size_t i = 0; i < count; ++i)
      sum[i] = static_cast<T>(static_cast<float>(sum[i]) + static_cast<float>(part[i]));
  }
  return sum;
}

}  // namespace

TEST_CASE("known sums are exact in every type, at every rank count") {
  constexpr size_t count = 20'000;
  for (const int ranks : {1, 2, 3, 8, 40}) {
    CAPTURE(ranks);
    const KnownSums known(0, ranks);
    auto singles = summed<float>(ranks, count);
    CHECK(known.wrong(tensor(singles), 0) == 0);
    auto halves = summed<bfloat16>(ranks, count);
    CHECK(known.wrong(tensor(halves), 0) == 0);
    auto doubles = summed<double>(ranks, count);
    CHECK(known.wrong(tensor(doubles), 0) == 0);
  }
}

TEST_CASE("what is not the sum is counted") {
  constexpr size_t count = 20'000;
  const KnownSums known(1, 3);
  auto sum = summed<float>(3, count);
  sum[7] += 1.0F;
  sum[19'999] = 0.5F;
  CHECK(known.wrong(tensor(sum), 0) == 2);

  SUBCASE("one rank's contribution alone") {
    known.fill(tensor(sum));
    CHECK(known.wrong(tensor(sum), 0) > int64_t{count} / 2);
  }
  SUBCASE("pieces in the wrong place") {
    auto right = summed<float>(3, count);
    for (const int64_t piece : {1, 16, 1024, 4096}) {
      const Tensor moved = tensor(right).flat({piece, int64_t{count}});
      CHECK(known.wrong(moved, piece) == 0);
      CHECK(known.wrong(moved, 0) > int64_t{count} / 2);
    }
  }
  SUBCASE("what nobody wrote") {
    KnownSums::spoil(tensor(sum));
    CHECK(known.wrong(tensor(sum), 0) == int64_t{count});
    known.fill_with_sums(tensor(sum));
    CHECK(known.wrong(tensor(sum), 0) == 0);
  }
}

TEST_CASE("sizes are read in powers of 1024") {
  CHECK(parse_bytes("sizes", "0") == 0);
  CHECK(parse_bytes("sizes", "4") == 4);
  CHECK(parse_bytes("sizes", "32K") == 32 * 1024);
  CHECK(parse_bytes("sizes", "8589934591G") == int64_t{8589934591} << 30);
  for (const char* bad : {"", "K", "4k", "-4", "4 K", "1.5M", "8589934592G", "99999999999999999999", "4MB"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_bytes("sizes", bad), Error);
  }
  CHECK(split_list("what", "a,b") == std::vector<std::string>{"a", "b"});
  for (const char* bad : {"", ",", "a,", ",a", "a,,b"}) CHECK_THROWS_AS(split_list("what", bad), Error);
}

}  // namespace gpt
