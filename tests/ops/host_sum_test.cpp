#include "device/host_sum.hpp"

#include "base/bfloat16.hpp"
#include "base/philox.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t sizes[] = {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000};

std::vector<float> numbers(int64_t count, uint64_t seed) {
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random_bits(seed, static_cast<uint64_t>(i)) >> 11) * 0x1p-53;
    result.push_back(static_cast<float>(std::exp2(20.0 * unit - 10.0) * (unit < 0.5 ? -1.0 : 1.0)));
  }
  return result;
}

Tensor tensor(std::vector<float>& values) { return {values.data(), DType::f32, {std::ssize(values)}}; }

TEST_CASE("arrays are added in turn and as a tree, bit for bit") {
  for (const int64_t size : sizes) {
    std::vector<std::vector<float>> arrays;
    std::vector<Summand> summands;
    for (uint64_t seed = 0; seed < 5; ++seed) arrays.push_back(numbers(size, seed));
    for (const auto& array : arrays) summands.push_back({.data = array.data()});
    std::vector<float> turn(static_cast<size_t>(size)), tree(turn);
    sum_arrays(tensor(turn), summands, in_turn(5));
    sum_arrays(tensor(tree), summands, as_tree(5));
    for (size_t i = 0; i < turn.size(); ++i) {
      const auto a = [&](size_t k) { return arrays[k][i]; };
      CHECK(turn[i] == (((a(0) + a(1)) + a(2)) + a(3)) + a(4));
      CHECK(tree[i] == ((a(0) + a(1)) + (a(2) + a(3))) + a(4));
    }
  }
}

TEST_CASE("the output may be one of the summands") {
  std::vector<float> a = numbers(3000, 1);
  const std::vector<float> before = a, b = numbers(3000, 2);
  const Summand summands[] = {{.data = b.data()}, {.data = a.data()}};
  sum_arrays(tensor(a), summands, in_turn(2));
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == b[i] + before[i]);
}

TEST_CASE("bf16 summands are added in f32 and rounded once") {
  for (const int64_t size : sizes) {
    std::vector<bfloat16> a, b, out(static_cast<size_t>(size));
    for (const float x : numbers(size, 3)) a.emplace_back(x);
    for (const float x : numbers(size, 4)) b.emplace_back(x);
    const std::vector<float> c = numbers(size, 5);
    const Summand summands[] = {
        {a.data(), DType::bf16}, {b.data(), DType::bf16}, {c.data(), DType::f32, DType::bf16}};
    sum_arrays({out.data(), DType::bf16, {size}}, summands, in_turn(3));
    std::vector<float> wide(static_cast<size_t>(size)), kept(wide);
    sum_arrays(tensor(wide), summands, in_turn(3));
    sum_arrays(tensor(kept), summands, in_turn(3), DType::bf16);
    for (size_t i = 0; i < out.size(); ++i) {
      const float sum =
          (static_cast<float>(a[i]) + static_cast<float>(b[i])) + static_cast<float>(bfloat16(c[i]));
      CHECK(wide[i] == sum);
      CHECK(out[i].bits == bfloat16(sum).bits);
      CHECK(kept[i] == static_cast<float>(bfloat16(sum)));
    }
  }
}

TEST_CASE("doubles are added as doubles, infinities and NaN pass") {
  const std::vector<double> a = {1.0, 1e300, std::numeric_limits<double>::infinity()},
                            b = {1e-17, 1e300, 1.0};
  std::vector<double> out(3);
  const Summand summands[] = {{a.data(), DType::f64}, {b.data(), DType::f64}};
  sum_arrays({out.data(), DType::f64, {3}}, summands, in_turn(2));
  for (size_t i = 0; i < 3; ++i) CHECK(out[i] == a[i] + b[i]);

  std::vector<float> odd(17, std::numeric_limits<float>::quiet_NaN()), rounded(17);
  const Summand one[] = {{.data = odd.data()}};
  sum_arrays(tensor(rounded), one, in_turn(1), DType::bf16);
  for (const float x : rounded) CHECK(std::isnan(x));
}

}  // namespace
}  // namespace gpt
