#include "harness.hpp"

#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;
using reference::NormSizes;

namespace {

constexpr NormSizes cases[] = {{1, 1, 1},   {2, 7, 33},  {1, 1, 8},    {3, 65, 128},
                               {2, 20, 20}, {2, 9, 384}, {1, 257, 67}, {1, 2, 13000}};
constexpr Dropout none{};
constexpr Dropout dropping{
    .rate = 0.3F, .seed = 0x123456789abcdef, .step = 7, .site = 4, .first_sequence = 11};

/// Width 1 has no variance: y is the bias, and an error relative to the largest value of nothing but rounding
/// has no meaning.
double scaled_error(const Array& actual, const Array& expected) {
  Array shifted = expected;
  Array actual_shifted = actual;
  shifted.push_back(1.0);
  actual_shifted.push_back(1.0);
  return max_error(actual_shifted, shifted);
}

}  // namespace

TEST_CASE("add_norm agrees with the reference") {
  for (DType type : float_types)
    for (const NormSizes& s : cases)
      for (const Dropout& dropout : {none, dropping})
        for (bool has_delta : {false, true})
          for (bool has_bias : {false, true})
            for (const auto& device : devices()) {
              INFO(case_name("add_norm", {s.sequences, s.positions, s.width, has_delta, has_bias}),
                   " dropout ", dropout.rate, " in ", std::string(name_of(type)), " on ", device->name());
              const Array x = random_floats(s.rows() * s.width, 1);
              const Array delta = has_delta ? rounded(random_floats(s.rows() * s.width, 2), type) : Array{};
              const Array weight = random_floats(s.width, 3);
              const Array bias = has_bias ? random_floats(s.width, 4) : Array{};
              const auto expected = reference::add_norm(s, x, delta, weight, bias, dropout);

              const Guarded x_in({s.sequences, s.positions, s.width}, x);
              const Guarded delta_in(type, {s.sequences, s.positions, s.width}, has_delta ? delta : x);
              const Guarded weight_in({s.width}, weight);
              const Guarded bias_in({s.width}, has_bias ? bias : weight);
              const Guarded sum(DType::f32, {s.sequences, s.positions, s.width});
              const Guarded y(type, {s.sequences, s.positions, s.width});
              const Guarded mean(DType::f32, {s.rows()});
              const Guarded rstd(DType::f32, {s.rows()});
              const auto queue = device->make_queue();
              device->ops().add_norm(has_delta ? Tensor(sum) : Tensor{}, y, mean, rstd, x_in,
                                     has_delta ? Tensor(delta_in) : Tensor{}, weight_in,
                                     has_bias ? Tensor(bias_in) : Tensor{}, dropout, *queue);
              if (has_delta) CHECK(max_error(sum.values(), expected.sum) < tolerance);
              CHECK(scaled_error(y.values(), expected.y) < tolerance_of(type));
              CHECK(scaled_error(mean.values(), expected.mean) < tolerance);
              CHECK(max_error(rstd.values(), expected.rstd) < tolerance);
              for (const Guarded* output : {&sum, &y, &mean, &rstd}) CHECK(output->intact());

              if (!has_delta) continue;
              const Array y_apart = y.values();
              device->ops().add_norm(x_in, y, mean, rstd, x_in, delta_in, weight_in,
                                     has_bias ? Tensor(bias_in) : Tensor{}, dropout, *queue);
              CHECK(x_in.values() == sum.values());
              CHECK(y.values() == y_apart);
            }
}

TEST_CASE("add_norm_backward agrees with the reference") {
  for (DType type : float_types)
    for (const NormSizes& s : cases)
      for (const Dropout& dropout : {none, dropping})
        for (Write dx_write : {Write::overwrite, Write::accumulate})
          for (Write write : {Write::overwrite, Write::accumulate})
            for (const auto& device : devices()) {
              INFO(
                  case_name("add_norm_backward", {s.sequences, s.positions, s.width,
                                                  dx_write == Write::accumulate, write == Write::accumulate}),
                  " dropout ", dropout.rate, " in ", std::string(name_of(type)), " on ", device->name());
              const bool has_delta = dx_write == Write::accumulate;
              const bool has_bias = write == Write::accumulate;
              const Array sum = random_floats(s.rows() * s.width, 1);
              const Array weight = random_floats(s.width, 2);
              const Array dy = rounded(random_floats(s.rows() * s.width, 3), type);
              const Array residual = random_floats(s.rows() * s.width, 4);
              const Array before = random_floats(s.width, 5);
              const auto forward = reference::add_norm(s, sum, {}, weight, {}, {});
              const auto expected = reference::add_norm_backward(
                  s, dy, sum, weight, dx_write == Write::accumulate ? residual : Array{}, dropout);

              const Guarded sum_in({s.sequences, s.positions, s.width}, sum);
              const Guarded dy_in(type, {s.sequences, s.positions, s.width}, dy);
              const Guarded weight_in({s.width}, weight);
              const Guarded mean({s.rows()}, forward.mean);
              const Guarded rstd({s.rows()}, forward.rstd);
              const Guarded dx = dx_write == Write::accumulate
                                     ? Guarded({s.sequences, s.positions, s.width}, residual)
                                     : Guarded(DType::f32, {s.sequences, s.positions, s.width});
              const Guarded d_delta(type, {s.sequences, s.positions, s.width});
              const Guarded d_weight =
                  write == Write::accumulate ? Guarded({s.width}, before) : Guarded(DType::f32, {s.width});
              const Guarded d_bias =
                  write == Write::accumulate ? Guarded({s.width}, before) : Guarded(DType::f32, {s.width});
              const auto queue = device->make_queue();
              device->ops().add_norm_backward(dx, has_delta ? Tensor(d_delta) : Tensor{}, d_weight,
                                              has_bias ? Tensor(d_bias) : Tensor{}, dy_in, sum_in, mean, rstd,
                                              weight_in, dropout, dx_write, write, *queue);
              CHECK(scaled_error(dx.values(), expected.dx) < tolerance);
              if (has_delta) CHECK(scaled_error(d_delta.values(), expected.d_delta) < tolerance_of(type));
              const bool adds = write == Write::accumulate;
              CHECK(scaled_error(d_weight.values(), adds ? expected.d_weight + before : expected.d_weight) <
                    tolerance);
              if (has_bias) CHECK(max_error(d_bias.values(), expected.d_bias + before) < tolerance);
              for (const Guarded* output : {&dx, &d_delta, &d_weight, &d_bias}) CHECK(output->intact());
            }
}

TEST_CASE("norms in bf16 are those in f32 with results rounded to the nearest") {
  for (const NormSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (const auto& device : devices()) {
        INFO(case_name("norms", {s.sequences, s.positions, s.width}), " dropout ", dropout.rate, " on ",
             device->name());
        const Array x = random_floats(s.rows() * s.width, 1);
        const Array branch = rounded(random_floats(s.rows() * s.width, 2), DType::bf16);
        const Guarded weight({s.width}, random_floats(s.width, 3));
        std::vector<Array> kept;   // stays in f32 whatever the type
        std::vector<Array> typed;  // has the type of activations
        for (DType type : float_types) {
          const Guarded stream({s.sequences, s.positions, s.width}, x);
          const Guarded delta(type, {s.sequences, s.positions, s.width}, branch);
          const Guarded sum(DType::f32, {s.sequences, s.positions, s.width});
          const Guarded y(type, {s.sequences, s.positions, s.width});
          const Guarded mean(DType::f32, {s.rows()});
          const Guarded rstd(DType::f32, {s.rows()});
          const auto queue = device->make_queue();
          device->ops().add_norm(sum, y, mean, rstd, stream, delta, weight, weight, dropout, *queue);
          const Guarded d_delta(type, {s.sequences, s.positions, s.width});
          const Guarded d_weight(DType::f32, {s.width});
          const Guarded d_bias(DType::f32, {s.width});
          device->ops().add_norm_backward(stream, d_delta, d_weight, d_bias, delta, sum, mean, rstd, weight,
                                          dropout, Write::accumulate, Write::overwrite, *queue);
          for (const Guarded* result : {&sum, &mean, &rstd, &stream, &d_weight, &d_bias})
            kept.push_back(result->values());
          for (const Guarded* result : {&y, &d_delta}) typed.push_back(result->values());
        }
        for (size_t i = 0; i < kept.size() / 2; ++i) CHECK(kept[i] == kept[i + kept.size() / 2]);
        for (size_t i = 0; i < typed.size() / 2; ++i)
          CHECK(rounded(typed[i], DType::bf16) == typed[i + typed.size() / 2]);
      }
}
