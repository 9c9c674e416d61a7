#include "harness.hpp"

#include "base/error.hpp"
#include "base/normal.hpp"
#include "base/philox.hpp"
#include "device/cuda_device.hpp"
#include "support/staged_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <hwy/targets.h>
#include <limits>

namespace gpt::test {
namespace {

constexpr int64_t guard_bytes = 256;
constexpr int64_t alignment = 64;
constexpr std::byte sentinel{0xA5};

/// Kernels for lesser instruction sets than this machine's are tested too: GPT_TEST_INSTRUCTIONS names one.
void limit_instructions() {
  const char* wanted = std::getenv("GPT_TEST_INSTRUCTIONS");
  if (wanted == nullptr) return;
  const std::string name = wanted;
  validate(name == "AVX2" || name == "SSSE3", "GPT_TEST_INSTRUCTIONS is {}: use AVX2 or SSSE3", name);
  // Highway numbers better sets lower: all bits below the wanted one, also of sets that a later version adds.
  hwy::DisableTargets((name == "AVX2" ? HWY_AVX2 : HWY_SSSE3) - 1);
}

std::vector<std::unique_ptr<Device>> cpu_devices() {
  limit_instructions();
  std::vector<std::unique_ptr<Device>> made;
  for (int threads : {1, 2}) made.push_back(make_cpu_device(threads));
  return made;
}

/// One for each way in which operations go: without and with GELU in an epilogue, and with kernels that load
/// one element at a time and attention that has room for a few heads only; with cuDNN's attention where the
/// build has it.
std::vector<std::unique_ptr<Device>> cuda_devices() {
  std::vector<std::unique_ptr<Device>> made;
  made.push_back(make_staged_device(make_cuda_device(0), Placement::aligned));
  made.push_back(make_staged_device(make_cuda_device(0, {.fused_gelu = true}), Placement::aligned));
  made.push_back(make_staged_device(make_cuda_device(0, {.attention_scratch = 64 << 10}), Placement::odd));
  if (has_cudnn_attention())
    made.push_back(make_staged_device(make_cuda_device(0, {.cudnn_attention = true}), Placement::aligned));
  return made;
}

}  // namespace

bool on_cuda() {
  const char* wanted = std::getenv("GPT_TEST_DEVICE");
  if (wanted == nullptr) return false;
  validate(std::string(wanted) == "cuda", "GPT_TEST_DEVICE is {}: leave it out, or use cuda", wanted);
  return true;
}

const std::vector<std::unique_ptr<Device>>& devices() {
  static const auto list = on_cuda() ? cuda_devices() : cpu_devices();
  return list;
}

bool multiplies_pairs() {
  if (on_cuda()) return true;
#if defined(__x86_64__)
  return devices().front()->name().find("AVX-512") != std::string::npos &&
         __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

Array random_values(int64_t size, uint64_t key) {
  Array values;
  for (int64_t i = 0; i < size; ++i) values.push_back(random_normal(key, static_cast<uint64_t>(i)));
  return values;
}

Array random_floats(int64_t size, uint64_t key, double scale) {
  Array values = random_values(size, key);
  for (double& value : values) value = static_cast<double>(static_cast<float>(value * scale));
  return values;
}

Array rounded(Array values, DType dtype) {
  if (dtype == DType::bf16)
    for (double& value : values)
      value = static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(value))));
  return values;
}

Tokens random_tokens(int64_t size, int64_t vocabulary, uint64_t key) {
  Tokens tokens;
  for (int64_t i = 0; i < size; ++i)
    tokens.push_back(
        static_cast<int32_t>(random_bits(key, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocabulary)));
  return tokens;
}

Guarded::Guarded(DType dtype, std::initializer_list<int64_t> shape) {
  const int64_t bytes = Tensor(&dtype, dtype, shape).bytes();
  bytes_.assign(static_cast<size_t>(bytes + 2 * guard_bytes + alignment), sentinel);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes_.data())) + guard_bytes;
  std::byte* data = bytes_.data() + guard_bytes + (round_up(address, alignment) - address);
  std::memset(data, 0xFF, static_cast<size_t>(bytes));  // NaN in every float type
  tensor_ = Tensor(data, dtype, shape);
}

Guarded::Guarded(std::initializer_list<int64_t> shape, const Array& values)
    : Guarded(DType::f32, shape, values) {}

Guarded::Guarded(DType dtype, std::initializer_list<int64_t> shape, const Array& values)
    : Guarded(dtype, shape) {
  if (dtype == DType::bf16)
    std::transform(values.begin(), values.end(), tensor_.data<bfloat16>(),
                   [](double value) { return bfloat16(static_cast<float>(value)); });
  else
    std::transform(values.begin(), values.end(), tensor_.data<float>(),
                   [](double value) { return static_cast<float>(value); });
}

Guarded::Guarded(std::initializer_list<int64_t> shape, const Tokens& values) : Guarded(DType::i32, shape) {
  std::copy(values.begin(), values.end(), tensor_.data<int32_t>());
}

Array Guarded::values() const {
  Array result;
  for (int64_t i = 0; i < tensor_.size(); ++i) switch (tensor_.dtype()) {
      case DType::f32:
        result.push_back(static_cast<double>(tensor_.data<float>()[i]));
        break;
      case DType::f64:
        result.push_back(tensor_.data<double>()[i]);
        break;
      case DType::bf16:
        result.push_back(static_cast<double>(static_cast<float>(tensor_.data<bfloat16>()[i])));
        break;
      case DType::i32:
        result.push_back(tensor_.data<int32_t>()[i]);
        break;
    }
  return result;
}

bool Guarded::intact() const {
  const auto* begin = static_cast<const std::byte*>(tensor_.raw());
  const auto* end = begin + tensor_.bytes();
  const auto stands = [](std::byte b) { return b == sentinel; };
  return std::all_of(bytes_.data(), begin, stands) && std::all_of(end, bytes_.data() + bytes_.size(), stands);
}

double max_error(const Array& actual, const Array& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0;
  double largest = std::numeric_limits<double>::min();
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error == 0.0 ? 0.0 : error / largest;
}

GradientErrors gradient_errors(const reference::AttentionSizes& s, const Array& actual,
                               const Array& expected) {
  const auto columns = [&](const Array& dqkv, Range wanted) {
    Array part;
    for (auto row = dqkv.begin(); row != dqkv.end(); row += 3 * s.width())
      part.insert(part.end(), row + wanted.begin, row + wanted.end);
    return part;
  };
  const auto error = [&](Range wanted) {
    return max_error(columns(actual, wanted), columns(expected, wanted));
  };
  const int64_t width = s.width();
  const double dv = error({2 * width, 3 * width});
  if (s.positions == 1) return {error({0, 3 * width}), error({0, 3 * width}), dv};
  return {error({0, width}), error({width, 2 * width}), dv};
}

std::string case_name(const char* operation, std::initializer_list<int64_t> sizes) {
  std::string name = operation;
  for (int64_t size : sizes) name += ' ' + std::to_string(size);
  return name;
}

Array operator+(const Array& a, const Array& b) {
  Array sum;
  std::transform(a.begin(), a.end(), b.begin(), std::back_inserter(sum),
                 [](double x, double y) { return x + y; });
  return sum;
}

}  // namespace gpt::test
