#include "base/philox.hpp"
#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <vector>

using namespace gpt;
using namespace gpt::test;

namespace {

/// Beginnings that are no multiple of a vector or a block, and one behind which blocks have more than 32
/// bits.
constexpr int64_t firsts[] = {0, 4, 3, 1029, (int64_t{1} << 35) - 20};

WeightRounding stochastic(uint64_t seed, int64_t step, int64_t first) {
  return {.stochastic = true, .seed = seed, .step = step, .first = first};
}

/// What the bits of an f32 stand for, subnormal numbers too, which arithmetic in f32 may take for 0. Infinity
/// is the neighbour of the largest number, 2¹²⁸.
double number_of(uint32_t raw) {
  const auto exponent = static_cast<int>(raw >> 23 & 0xff);
  const double mantissa = (raw & 0x7fffff) + (exponent > 0 ? 0x1p23 : 0.0);
  const double magnitude = std::ldexp(mantissa, std::max(exponent, 1) - 150);
  return raw >> 31 == 0 ? magnitude : -magnitude;
}

bool is_nan(uint32_t raw) { return (raw & 0x7fffffff) > 0x7f800000; }

/// The 16 random bits of a weight, as a share of 1.
double drawn(const WeightRounding& rounding, int64_t element) {
  const auto index = static_cast<uint64_t>(rounding.first + element),
             step = static_cast<uint64_t>(rounding.step);
  const auto words = philox(rounding.seed ^ 0x726f756e64696e67,
                            {static_cast<uint32_t>(index / 8), static_cast<uint32_t>(index / 8 >> 32),
                             static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)});
  const uint32_t word = words[index % 8 / 2];
  return (index % 2 == 0 ? word % 65536 : word / 65536) / 65536.0;
}

/// In double, where all of this is exact: the neighbour in bf16 farther from zero if x's share of the way to
/// it and the drawn share are 1 together, else the nearer one.
double rounded_by_formula(double x, double share) {
  if (x == 0.0) return x;
  const double gap = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
  const double nearer = std::floor(std::abs(x) / gap);
  const double magnitude = (nearer + (std::abs(x) / gap - nearer + share >= 1.0 ? 1.0 : 0.0)) * gap;
  return std::copysign(magnitude, x);
}

Guarded tensor_of(const std::vector<uint32_t>& words) {
  Guarded tensor(DType::f32, {std::ssize(words)});
  std::memcpy(Tensor(tensor).raw(), words.data(), words.size() * sizeof(uint32_t));
  return tensor;
}

std::vector<uint32_t> words_of(const Tensor& p) {
  std::vector<uint32_t> words(static_cast<size_t>(p.size()));
  std::memcpy(words.data(), p.raw(), words.size() * sizeof(uint32_t));
  return words;
}

/// The bits of bf16, as the upper halves of words.
std::vector<uint32_t> halves_of(const Tensor& half) {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < half.size(); ++i) words.push_back(uint32_t{half.data<bfloat16>()[i].bits} << 16);
  return words;
}

std::vector<uint32_t> rounded(Device& device, const Tensor& p, const WeightRounding& rounding) {
  const Guarded half(DType::bf16, {p.size()});
  device.ops().round(half, p, rounding, *device.make_queue());
  CHECK(half.intact());
  return halves_of(half);
}

/// How many of `halves` are not what the formula makes of `words`.
int64_t count_wrong(const std::vector<uint32_t>& halves, const std::vector<uint32_t>& words,
                    const WeightRounding& rounding) {
  int64_t wrong = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t half = halves[i], word = words[i];
    const double share = drawn(rounding, static_cast<int64_t>(i));
    const bool right =
        is_nan(word) ? is_nan(half) : number_of(half) == rounded_by_formula(number_of(word), share);
    wrong += !right || half >> 31 != word >> 31;
  }
  return wrong;
}

std::vector<uint32_t> random_words(int64_t size, uint64_t key) {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < size; ++i)
    words.push_back(static_cast<uint32_t>(random_bits(key, static_cast<uint64_t>(i))));
  return words;
}

}  // namespace

TEST_CASE("stochastic rounding agrees with the formula, whatever the numbers and wherever they lie") {
  std::vector<uint32_t> words = random_words(3001, 1);
  const uint32_t special[] = {0,          0x80000000, 1,          0x0000ffff, 0x00010000, 0x007fffff,
                              0x00800001, 0x3f800000, 0x3f807fff, 0x3f808000, 0x3f80ffff, 0x3fffffff,
                              0x7f7f0000, 0x7f7f0001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                              0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc00000};
  for (int repetition = 0; repetition < 20; ++repetition)
    words.insert(words.end(), std::begin(special), std::end(special));
  const Guarded p = tensor_of(words);
  for (const auto& device : devices())
    for (const int64_t first : firsts)
      for (const int64_t step : {int64_t{0}, int64_t{7}, (int64_t{1} << 33) + 1}) {
        INFO(device->name(), ", first ", first, ", step ", step);
        const WeightRounding rounding = stochastic(uint64_t{5} << 60 | 11, step, first);
        CHECK(count_wrong(rounded(*device, p, rounding), words, rounding) == 0);
      }
}

TEST_CASE("stochastic rounding keeps what bf16 holds, and knows nothing beyond infinity") {
  std::vector<uint32_t> held, largest;
  for (uint32_t half = 0; half < 0x10000; ++half)
    if (!is_nan(half << 16)) held.push_back(half << 16);
  for (uint32_t rest = 1; rest < 0x10000; rest += 7) largest.push_back(0x7f7f0000 | rest);
  for (const auto& device : devices()) {
    CHECK(rounded(*device, tensor_of(held), stochastic(3, 4, 5)) == held);
    const std::vector<uint32_t> halves = rounded(*device, tensor_of(largest), stochastic(3, 4, 5));
    CHECK(std::ranges::count(halves, 0x7f7f0000U) + std::ranges::count(halves, 0x7f800000U) ==
          std::ssize(largest));
    CHECK(std::ranges::count(halves, 0x7f800000U) > 0);
  }
}

TEST_CASE("the expectation of stochastic rounding is the number itself") {
  constexpr int64_t size = 512;
  constexpr int64_t seeds = 64;
  constexpr auto draws = static_cast<double>(size * seeds);
  const auto& device = devices().back();
  for (const double base : {1.0, -1.0, 1.9921875, 0x1p-20})  // 1.9921875: the last below 2
    for (const double share : {0.5, 0.25, 0.9, 0.01}) {
      const double gap = std::ldexp(1.0, std::ilogb(base) - 7);
      const float value = static_cast<float>(base + std::copysign(share * gap, base));
      const double exact_share = (std::abs(static_cast<double>(value)) - std::abs(base)) / gap;
      const Guarded p({size}, Array(size, static_cast<double>(value)));
      double up = 0.0;
      for (uint64_t seed = 0; seed < static_cast<uint64_t>(seeds); ++seed)
        for (const uint32_t half : rounded(*device, p, stochastic(seed, 1, 100)))
          up += (std::abs(number_of(half)) - std::abs(base)) / gap;
      INFO(base, ", share ", share);
      const double deviation = std::sqrt(exact_share * (1.0 - exact_share) / draws);
      CHECK(std::abs(up / draws - exact_share) < 4.0 * deviation);
    }
}

TEST_CASE("stochastic rounding does not depend on how weights are cut, and does on seed, step and place") {
  const std::vector<uint32_t> words = random_words(9000, 2);
  const Guarded p = tensor_of(words);
  const WeightRounding all = stochastic(8, 3, 24);
  const std::vector<uint32_t> whole = rounded(*devices().front(), p, all);
  for (const auto& device : devices()) {
    std::vector<uint32_t> pieces;
    int64_t begin = 0;
    for (const int64_t end : {1, 8, 23, 1024, 1032, 5000, 9000}) {
      const Guarded piece = tensor_of({words.begin() + begin, words.begin() + end});
      for (const uint32_t half : rounded(*device, piece, all.from(begin))) pieces.push_back(half);
      begin = end;
    }
    CHECK(pieces == whole);
    for (const WeightRounding& other : {stochastic(9, 3, 24), stochastic(8, 4, 24), stochastic(8, 3, 32)})
      CHECK(rounded(*device, p, other) != whole);
  }
}

TEST_CASE("adamw rounds as the rounding says, and all else stays the same") {
  for (const int64_t size : {1, 15, 1023, 1024, 10000})
    for (const int64_t first : firsts)
      for (const auto& device : devices()) {
        INFO(case_name("adamw", {size, first}), " on ", device->name());
        const auto run = [&](const WeightRounding& rounding) {
          std::vector<Guarded> results;
          results.push_back({{size}, random_floats(size, 1)});
          results.push_back({{size}, random_floats(size, 2)});
          results.push_back({{size}, Array(size, 0.5)});
          results.push_back({DType::bf16, {size}});
          const Guarded scalars(DType::f64, {static_cast<int64_t>(StepScalar::count)});
          for (int i = 0; i < static_cast<int>(StepScalar::count); ++i)
            Tensor(scalars).data<double>()[i] = 1.0;
          device->ops().adamw(results[0], results[3], results[1], results[2],
                              Guarded({size}, random_floats(size, 3)), scalars,
                              {.lr = 1e-2F, .step = 6, .rounding = rounding}, *device->make_queue());
          for (const Guarded& result : results) CHECK(result.intact());
          return results;
        };
        const WeightRounding rounding = stochastic(17, 6, first);
        const std::vector<Guarded> results = run(rounding), nearest = run(to_nearest);
        for (size_t i = 0; i < 3; ++i) CHECK(results[i].values() == nearest[i].values());
        CHECK(count_wrong(halves_of(results[3]), words_of(results[0]), rounding) == 0);
        CHECK(rounded(*device, results[0], rounding) == halves_of(results[3]));
        CHECK(rounded(*device, results[0], to_nearest) == halves_of(nearest[3]));
      }
}
