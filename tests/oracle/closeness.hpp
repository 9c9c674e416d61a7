#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gpt::test {

/// Largest error as a share of the largest expected element; infinite where sizes differ or a value is no
/// number.
template <class Expected>
double error_of(const std::vector<float>& values, const std::vector<Expected>& expected) {
  if (values.size() != expected.size()) return INFINITY;
  double error = 0, largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i]));
    if (std::isnan(difference)) return INFINITY;
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return error / largest;
}

/// Euclidean norm of the errors over that of what is expected; infinite as above.
template <class Expected>
double distance_of(const std::vector<float>& values, const std::vector<Expected>& expected) {
  if (values.size() != expected.size()) return INFINITY;
  double errors = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto wanted = static_cast<double>(expected[i]);
    errors += (static_cast<double>(values[i]) - wanted) * (static_cast<double>(values[i]) - wanted);
    squares += wanted * wanted;
  }
  return std::isnan(errors) ? INFINITY : std::sqrt(errors / squares);
}

}  // namespace gpt::test
