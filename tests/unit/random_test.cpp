#include "base/normal.hpp"
#include "base/philox.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace gpt;

// Known answers published with Random123 (kat_vectors, philox4x32-10).
TEST_CASE("philox gives the published bits") {
  using Block = std::array<uint32_t, 4>;
  CHECK(philox(0, {0, 0, 0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal deviates have mean 0, variance 1 and the tails of a normal") {
  double sum = 0, squares = 0;
  int beyond_two = 0;
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const double value = random_normal(7, static_cast<uint64_t>(i));
    REQUIRE(std::isfinite(value));
    sum += value;
    squares += value * value;
    beyond_two += std::abs(value) > 2.0;
  }
  CHECK(std::abs(sum / count) < 0.015);
  CHECK(std::abs(squares / count - 1.0) < 0.02);
  CHECK(std::abs(beyond_two / double{count} - 0.0455) < 0.003);
}

TEST_CASE("random bits depend on key and on both counters") {
  CHECK(random_bits(1, 2, 3) == random_bits(1, 2, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(2, 2, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 3, 3));
  CHECK(random_bits(1, 2, 3) != random_bits(1, 2, 4));
}
