#include "device/cpu/norm_rows.hpp"

#include <algorithm>
#include <cmath>

// clang-format off: the kernels' headers must follow the one that repeats this file for each instruction set
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/norm_rows.cpp"
#include <hwy/foreach_target.h>
// clang-format on

#include "device/cpu/bfloat16-inl.hpp"
#include "device/cpu/dropout-inl.hpp"
#include "device/cpu/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace gpt::HWY_NAMESPACE {

constexpr float epsilon = 1e-5F;

/// sum = x + delta, or x + delta·factor.
template <class Element>
HWY_INLINE void add_row(float* sum, const float* x, const Element* delta, const float* factor,
                        int64_t width) {
  if (factor == nullptr) {
    for_vectors(
        0, width, [&](int64_t i) HWY_ATTR { store(hn::Add(load(x + i), load(delta + i)), sum + i); },
        [&](int64_t i, int64_t n)
            HWY_ATTR { store_n(hn::Add(load_n(x + i, n), load_n(delta + i, n)), sum + i, n); });
    return;
  }
  for_vectors(
      0, width,
      [&](int64_t i) HWY_ATTR { store(hn::MulAdd(load(delta + i), load(factor + i), load(x + i)), sum + i); },
      [&](int64_t i, int64_t n) HWY_ATTR {
        store_n(hn::MulAdd(load_n(delta + i, n), load_n(factor + i, n), load_n(x + i, n)), sum + i, n);
      });
}

HWY_INLINE float row_mean(const float* x, int64_t width) {
  Vector even = broadcast(0.0F);
  Vector odd = broadcast(0.0F);
  int64_t i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes) {
    even = hn::Add(even, load(x + i));
    odd = hn::Add(odd, load(x + i + lanes));
  }
  for_vectors(
      i, width, [&](int64_t j) HWY_ATTR { even = hn::Add(even, load(x + j)); },
      [&](int64_t j, int64_t n) HWY_ATTR { odd = hn::Add(odd, load_n(x + j, n)); });
  return sum_lanes(hn::Add(even, odd)) / static_cast<float>(width);
}

HWY_INLINE float row_variance(const float* x, float mean, int64_t width) {
  const Vector center = broadcast(mean);
  Vector even = broadcast(0.0F);
  Vector odd = broadcast(0.0F);
  int64_t i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes) {
    const Vector a = hn::Sub(load(x + i), center);
    const Vector b = hn::Sub(load(x + i + lanes), center);
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  float rest = 0.0F;
  for_vectors(
      i, width,
      [&](int64_t j) HWY_ATTR {
        const Vector a = hn::Sub(load(x + j), center);
        even = hn::MulAdd(a, a, even);
      },
      [&](int64_t j, int64_t n) {
        for (int64_t k = j; k < j + n; ++k) rest += (x[k] - mean) * (x[k] - mean);
      });
  return (sum_lanes(hn::Add(even, odd)) + rest) / static_cast<float>(width);
}

/// y = (x − mean)·rstd·weight + bias
template <class Rounding, class Element>
HWY_INLINE void norm_row(const NormForward<Element>& norm, Element* y, const float* x, float mean,
                         float rstd) {
  const Vector center = broadcast(mean);
  const Vector scale = broadcast(rstd);
  const Vector zero = broadcast(0.0F);
  const float* weight = norm.weight;
  const float* bias = norm.bias;
  for_vectors(
      0, norm.width,
      [&](int64_t i) HWY_ATTR {
        const Vector normed = hn::Mul(hn::Sub(load(x + i), center), scale);
        Rounding::store(hn::MulAdd(normed, load(weight + i), bias == nullptr ? zero : load(bias + i)), y + i);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        const Vector normed = hn::Mul(hn::Sub(load_n(x + i, n), center), scale);
        const Vector shift = bias == nullptr ? zero : load_n(bias + i, n);
        store_n(hn::MulAdd(normed, load_n(weight + i, n), shift), y + i, n);
      });
}

template <class Rounding, class Element>
HWY_INLINE void norm_forward_of(const NormForward<Element>& norm, Range rows, float* factors) {
  const int64_t width = norm.width;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* x = norm.x + row * width;
    if (norm.delta != nullptr) {
      const float* factor = nullptr;
      if (norm.dropout.active())
        factor =
            dropout_factors(norm.dropout, row / norm.positions, row % norm.positions * width, width, factors);
      float* sum = norm.sum + row * width;
      add_row(sum, x, norm.delta + row * width, factor, width);
      x = sum;
    }
    const float mean = row_mean(x, width);
    const float rstd = 1.0F / std::sqrt(row_variance(x, mean, width) + epsilon);
    norm.mean[row] = mean;
    norm.rstd[row] = rstd;
    norm_row<Rounding>(norm, norm.y + row * width, x, mean, rstd);
  }
}

/// What a row of the backward pass shares between its two sweeps.
template <class Element>
struct RowGradient {
  const Element* dy;
  const float* x;
  const float* weight;
  Vector center;
  Vector scale;
};

/// First sweep: adds the row's part of the parameter gradients, and yields mean(dy·w) and mean(dy·w·x̂).
template <class Element>
HWY_INLINE void add_parameter_gradients(const RowGradient<Element>& row, int64_t width, float* d_weight,
                                        float* d_bias, float& mean_gradient, float& mean_product) {
  Vector gradients = broadcast(0.0F);
  Vector products = broadcast(0.0F);
  for_vectors(
      0, width,
      [&](int64_t i) HWY_ATTR {
        const Vector dy = load(row.dy + i);
        const Vector normed = hn::Mul(hn::Sub(load(row.x + i), row.center), row.scale);
        store(hn::MulAdd(dy, normed, load(d_weight + i)), d_weight + i);
        store(hn::Add(dy, load(d_bias + i)), d_bias + i);
        const Vector gradient = hn::Mul(dy, load(row.weight + i));
        gradients = hn::Add(gradients, gradient);
        products = hn::MulAdd(gradient, normed, products);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        const Vector dy = load_n(row.dy + i, n);
        const Vector normed = hn::Mul(hn::Sub(load_n(row.x + i, n), row.center), row.scale);
        store(hn::MulAdd(dy, normed, load(d_weight + i)), d_weight + i);
        store(hn::Add(dy, load(d_bias + i)), d_bias + i);
        const Vector gradient = hn::Mul(dy, load_n(row.weight + i, n));
        gradients = hn::Add(gradients, gradient);
        products = hn::MulAdd(gradient, normed, products);
      });
  mean_gradient = sum_lanes(gradients) / static_cast<float>(width);
  mean_product = sum_lanes(products) / static_cast<float>(width);
}

/// Second sweep: dx = or += rstd·(dy·w − mean(dy·w) − x̂·mean(dy·w·x̂)); d_delta = dx·factor.
template <class Rounding, class Element>
HWY_INLINE void write_input_gradient(const RowGradient<Element>& row, int64_t width, float mean_gradient,
                                     float mean_product, bool accumulate, float* dx, Element* d_delta,
                                     const float* factor) {
  const Vector mean1 = broadcast(mean_gradient);
  const Vector mean2 = broadcast(mean_product);
  const Vector zero = broadcast(0.0F);
  const auto gradient = [&](Vector dy, Vector x, Vector weight, Vector before) HWY_ATTR {
    const Vector normed = hn::Mul(hn::Sub(x, row.center), row.scale);
    const Vector inner = hn::NegMulAdd(normed, mean2, hn::Sub(hn::Mul(dy, weight), mean1));
    return hn::MulAdd(row.scale, inner, before);
  };
  for_vectors(
      0, width,
      [&](int64_t i) HWY_ATTR {
        const Vector result = gradient(load(row.dy + i), load(row.x + i), load(row.weight + i),
                                       accumulate ? load(dx + i) : zero);
        store(result, dx + i);
        if (d_delta != nullptr)
          Rounding::store(factor == nullptr ? result : hn::Mul(result, load(factor + i)), d_delta + i);
      },
      [&](int64_t i, int64_t n) HWY_ATTR {
        const Vector result = gradient(load_n(row.dy + i, n), load_n(row.x + i, n), load_n(row.weight + i, n),
                                       accumulate ? load_n(dx + i, n) : zero);
        store_n(result, dx + i, n);
        if (d_delta != nullptr)
          store_n(factor == nullptr ? result : hn::Mul(result, load_n(factor + i, n)), d_delta + i, n);
      });
}

template <class Rounding, class Element>
HWY_INLINE void norm_backward_of(const NormBackward<Element>& norm, Range rows, float* d_weight,
                                 float* d_bias, float* factors) {
  const int64_t width = norm.width;
  std::fill_n(d_weight, round_up(width, 16), 0.0F);
  std::fill_n(d_bias, round_up(width, 16), 0.0F);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const RowGradient<Element> row{.dy = norm.dy + r * width,
                                   .x = norm.sum + r * width,
                                   .weight = norm.weight,
                                   .center = broadcast(norm.mean[r]),
                                   .scale = broadcast(norm.rstd[r])};
    float mean_gradient = 0.0F;
    float mean_product = 0.0F;
    add_parameter_gradients(row, width, d_weight, d_bias, mean_gradient, mean_product);
    const float* factor = nullptr;
    if (norm.d_delta != nullptr && norm.dropout.active())
      factor = dropout_factors(norm.dropout, r / norm.positions, r % norm.positions * width, width, factors);
    write_input_gradient<Rounding>(row, width, mean_gradient, mean_product, norm.accumulate,
                                   norm.dx + r * width,
                                   norm.d_delta == nullptr ? nullptr : norm.d_delta + r * width, factor);
  }
}

void norm_forward_f32(const NormForward<float>& norm, Range rows, float* factors) {
  norm_forward_of<PortableRounding>(norm, rows, factors);
}
void norm_forward_bf16(const NormForward<bfloat16>& norm, Range rows, float* factors) {
  with_rounding_to_bfloat16([&]<class Rounding>(Rounding)
                                HWY_ATTR { norm_forward_of<Rounding>(norm, rows, factors); });
}
void norm_backward_f32(const NormBackward<float>& norm, Range rows, float* d_weight, float* d_bias,
                       float* factors) {
  norm_backward_of<PortableRounding>(norm, rows, d_weight, d_bias, factors);
}
void norm_backward_bf16(const NormBackward<bfloat16>& norm, Range rows, float* d_weight, float* d_bias,
                        float* factors) {
  with_rounding_to_bfloat16([&]<class Rounding>(Rounding) HWY_ATTR {
    norm_backward_of<Rounding>(norm, rows, d_weight, d_bias, factors);
  });
}

void add_partials_simd(float* out, const float* partial, int64_t count, int64_t stride, Range columns,
                       bool accumulate) {
  const auto total = [&](int64_t column, Vector sum) HWY_ATTR {
    for (int64_t b = 0; b < count; ++b) sum = hn::Add(sum, load(partial + b * stride + column));
    return sum;
  };
  const Vector zero = broadcast(0.0F);
  for_vectors(
      columns.begin, columns.end,
      [&](int64_t i) HWY_ATTR { store(total(i, accumulate ? load(out + i) : zero), out + i); },
      [&](int64_t i, int64_t n)
          HWY_ATTR { store_n(total(i, accumulate ? load_n(out + i, n) : zero), out + i, n); });
}

}  // namespace gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpt {

HWY_EXPORT(norm_forward_f32);
HWY_EXPORT(norm_forward_bf16);
HWY_EXPORT(norm_backward_f32);
HWY_EXPORT(norm_backward_bf16);
HWY_EXPORT(add_partials_simd);

void norm_forward(const NormForward<float>& norm, Range rows, float* factors) {
  HWY_DYNAMIC_DISPATCH(norm_forward_f32)(norm, rows, factors);
}
void norm_forward(const NormForward<bfloat16>& norm, Range rows, float* factors) {
  HWY_DYNAMIC_DISPATCH(norm_forward_bf16)(norm, rows, factors);
}

void norm_backward(const NormBackward<float>& norm, Range rows, float* d_weight, float* d_bias,
                   float* factors) {
  HWY_DYNAMIC_DISPATCH(norm_backward_f32)(norm, rows, d_weight, d_bias, factors);
}
void norm_backward(const NormBackward<bfloat16>& norm, Range rows, float* d_weight, float* d_bias,
                   float* factors) {
  HWY_DYNAMIC_DISPATCH(norm_backward_bf16)(norm, rows, d_weight, d_bias, factors);
}

void add_partials(float* out, const float* partial, int64_t count, int64_t stride, Range columns,
                  bool accumulate) {
  HWY_DYNAMIC_DISPATCH(add_partials_simd)(out, partial, count, stride, columns, accumulate);
}

}  // namespace gpt
#endif
