#pragma once

#include "device/device.hpp"
#include "reference.hpp"

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

/// What tests of operations share: devices, tensors between sentinels, random values, errors.
namespace gpt::test {

using reference::Array;
using reference::Tokens;

/// What fp32 results may differ by, relative to the largest value of the tensor.
constexpr double tolerance = 1e-5;

/// Types of activations, and what results in them may differ by: bf16 keeps 8 bits, and what goes into a
/// result is rounded on the way now and then.
constexpr DType float_types[] = {DType::f32, DType::bf16};
constexpr double tolerance_of(DType type) { return type == DType::bf16 ? 8e-3 : tolerance; }

/// CPU devices with one and with two threads.
const std::vector<std::unique_ptr<Device>>& devices();

/// Normal random values, a pure function of `key`.
Array random_values(int64_t size, uint64_t key);
/// The same, rounded to what f32 holds, so that references and operations start from the same numbers.
Array random_floats(int64_t size, uint64_t key, double scale = 1.0);
/// What is left of `values` in a tensor of that type.
Array rounded(Array values, DType dtype);
/// Uniform in [0, vocabulary)
Tokens random_tokens(int64_t size, int64_t vocabulary, uint64_t key);

/// A tensor with sentinels before and behind it. Fresh ones hold NaN: what an operation must overwrite or
/// never read shows.
class Guarded {
public:
  Guarded(DType dtype, std::initializer_list<int64_t> shape);
  Guarded(std::initializer_list<int64_t> shape, const Array& values);
  /// f32 or bf16, rounded
  Guarded(DType dtype, std::initializer_list<int64_t> shape, const Array& values);
  Guarded(std::initializer_list<int64_t> shape, const Tokens& values);

  operator Tensor() const { return tensor_; }
  Array values() const;
  /// Whether all sentinels still stand.
  bool intact() const;

private:
  std::vector<std::byte> bytes_;
  Tensor tensor_;
};

/// max |actual − expected| / max |expected|; NaN counts as infinite, different sizes too.
double max_error(const Array& actual, const Array& expected);

/// Text of a case for doctest's INFO: "linear 7 33 65".
std::string case_name(const char* operation, std::initializer_list<int64_t> sizes);

/// Elementwise sum, for gradients that accumulate.
Array operator+(const Array& a, const Array& b);

}  // namespace gpt::test
