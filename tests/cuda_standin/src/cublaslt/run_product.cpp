#include "../number.hpp"
#include "product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace standin {
namespace {

float load(const void* data, uint32_t type, int64_t index) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[index];
  return bf16_to_float(static_cast<const uint16_t*>(data)[index]);
}
void store(void* data, uint32_t type, int64_t index, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[index] = value;
  else
    static_cast<uint16_t*>(data)[index] = float_to_bf16(value);
}

/// What a tensor core keeps of an fp32 input.
float as_input(float value, cublasComputeType_t compute) {
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return round_mantissa(value, 13);
  if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) return round_mantissa(value, 16);
  return value;
}

// The tanh form (Hendrycks & Gimpel 2016, eq. 2) and its derivative.
constexpr float kRootTwoOverPi = 0.7978845608f, kCubic = 0.044715f;
float gelu(float x) { return 0.5f * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x))); }
float gelu_derivative(float x) {
  const float t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}

/// One matrix product of a batch, on copies of the inputs in fp32.
class BatchProduct {
public:
  BatchProduct(const Product& product, const Operands& operands, int64_t batch)
      : p_(product), operands_(operands), batch_(batch), m_(p_.rows()), n_(p_.cols()), k_(p_.depth()) {
    read(a_, operands.a, p_.a, p_.desc.trans_a == CUBLAS_OP_N, m_);
    read(b_, operands.b, p_.b, p_.desc.trans_b == CUBLAS_OP_T, n_);
  }

  void run(float alpha, float beta) {
    std::vector<float> column(size_t(m_), 0.0f), bias_gradient(size_t(m_), 0.0f);
    for (int64_t j = 0; j < n_; ++j) {
      multiply(j, column);
      for (int64_t i = 0; i < m_; ++i) {
        const float value = finish(i, j, alpha * column[size_t(i)], beta);
        store(operands_.d, p_.d.type, batch_ * p_.d.batch_stride + p_.d.at(i, j), value);
        bias_gradient[size_t(i)] += value;
      }
    }
    if (p_.has_dgelu_bias_gradient()) store_bias(bias_gradient);
    if (p_.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA) store_bias(sums(a_, m_));
    if (p_.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) store_bias(sums(b_, n_));
  }

private:
  /// into (depth, outer), whichever way the matrix lies.
  void read(std::vector<float>& into, const void* data, const Layout& layout, bool outer_is_row,
            int64_t outer) const {
    into.resize(size_t(outer * k_));
    for (int64_t l = 0; l < k_; ++l)
      for (int64_t o = 0; o < outer; ++o) {
        const int64_t place = outer_is_row ? layout.at(o, l) : layout.at(l, o);
        into[size_t(l * outer + o)] =
            as_input(load(data, layout.type, batch_ * layout.batch_stride + place), p_.desc.compute);
      }
  }

  void multiply(int64_t j, std::vector<float>& column) const {
    std::fill(column.begin(), column.end(), 0.0f);
    float* const sum = column.data();
    for (int64_t l = 0; l < k_; ++l) {
      const float factor = b_[size_t(l * n_ + j)];
      const float* const a = a_.data() + l * m_;
      for (int64_t i = 0; i < m_; ++i) sum[i] += a[i] * factor;
    }
  }

  float finish(int64_t i, int64_t j, float value, float beta) const {
    // With beta 0, C is not read.
    if (beta != 0) value += beta * load(operands_.c, p_.c.type, batch_ * p_.c.batch_stride + p_.c.at(i, j));
    if (p_.adds_bias()) value += load(p_.desc.bias, p_.bias_type(), batch_ * p_.desc.bias_batch_stride + i);
    const int64_t aux = batch_ * p_.desc.aux_batch_stride + i + j * p_.desc.aux_ld;
    if (p_.stores_aux()) store(p_.desc.aux, p_.aux_type(), aux, value);
    if (p_.applies_gelu()) value = gelu(value);
    if (p_.applies_dgelu()) value *= gelu_derivative(load(p_.desc.aux, p_.aux_type(), aux));
    return value;
  }

  std::vector<float> sums(const std::vector<float>& matrix, int64_t outer) const {
    std::vector<float> result(size_t(outer), 0.0f);
    for (int64_t l = 0; l < k_; ++l)
      for (int64_t o = 0; o < outer; ++o) result[size_t(o)] += matrix[size_t(l * outer + o)];
    return result;
  }

  void store_bias(const std::vector<float>& values) const {
    for (size_t i = 0; i < values.size(); ++i) store(p_.desc.bias, p_.bias_type(), int64_t(i), values[i]);
  }

  const Product& p_;
  const Operands& operands_;
  int64_t batch_, m_, n_, k_;
  std::vector<float> a_;  // (k, m)
  std::vector<float> b_;  // (k, n)
};

}  // namespace

void run_product(const Product& product, float alpha, float beta, const Operands& operands) {
  for (int64_t batch = 0; batch < product.d.batch_count; ++batch)
    BatchProduct(product, operands, batch).run(alpha, beta);
}

}  // namespace standin
