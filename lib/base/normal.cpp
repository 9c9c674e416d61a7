#include "base/normal.hpp"

#include "base/philox.hpp"

#include <cmath>
#include <numbers>

namespace gpt {

double random_normal(uint64_t key, uint64_t a, uint64_t b) {
  const auto bits = philox(key, {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                 static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)});
  const double radius =
      1.0 - to_unit(uint64_t{bits[1]} << 32 | bits[0]);  // in (0, 1]: its logarithm is finite
  const double angle = to_unit(uint64_t{bits[3]} << 32 | bits[2]);
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(2.0 * std::numbers::pi * angle);
}

}  // namespace gpt
