#include "device/cpu_peaks.hpp"

#include "base/error.hpp"

#include <doctest/doctest.h>

namespace gpt {

TEST_CASE("every peak is found, and only of types that there are products of") {
  for (const int threads : {1, 2}) {
    CHECK(measure_peak_flops(threads, DType::f32) > 0.0);
    CHECK(measure_peak_flops(threads, DType::bf16) > 0.0);
    CHECK(measure_peak_bytes(threads) > 0.0);
  }
  CHECK_THROWS_AS(measure_peak_flops(1, DType::f64), Error);
}

}  // namespace gpt
