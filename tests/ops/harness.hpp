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

/// Whether GPT_TEST_DEVICE=cuda asks for a GPU (or its stand-in) instead of the CPU.
bool on_cuda();

/// CPU devices with one and with two threads. On a GPU those of one: fused and not, with odd addresses, with
/// attention by cuDNN.
const std::vector<std::unique_ptr<Device>>& devices();

/// Whether attention multiplies bfloat16 in pairs here, whose weights are rounded; a GPU does.
bool multiplies_pairs();

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

struct GradientErrors {
  double dq, dk, dv;
};
/// What dq, dk and dv may be off by. In bf16 dq and dk are made of dy·y, whose y is rounded; and of weights
/// that are rounded too, where they are multiplied in pairs.
constexpr GradientErrors tolerance_of_gradients(DType type, bool in_pairs) {
  if (type != DType::bf16) return {2e-6, 2e-6, 2e-6};
  return in_pairs ? GradientErrors{1.3e-2, 1.5e-2, 5.5e-3} : GradientErrors{7e-3, 1.2e-2, 4.5e-3};
}
/// max_error of dq, dk and dv apart, given whole dqkv. One position sees itself alone, whatever its q and k
/// are: their gradients are 0 then, and the errors relative to dv.
GradientErrors gradient_errors(const reference::AttentionSizes& s, const Array& actual,
                               const Array& expected);

/// Text of a case for doctest's INFO: "linear 7 33 65".
std::string case_name(const char* operation, std::initializer_list<int64_t> sizes);

/// Elementwise sum, for gradients that accumulate.
Array operator+(const Array& a, const Array& b);

}  // namespace gpt::test
