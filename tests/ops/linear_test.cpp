#include "base/bfloat16.hpp"
#include "device/buffer.hpp"
#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace gpt;
using namespace gpt::test;
using reference::LinearSizes;

namespace {

constexpr LinearSizes cases[] = {{1, 1, 1},    {7, 33, 65},    {1, 64, 48},   {64, 128, 384}, {3, 16, 512},
                                 {130, 20, 8}, {257, 96, 100}, {48, 384, 96}, {1, 771, 513},  {2, 31, 65},
                                 {4, 130, 33}, {5, 33, 1},     {8, 100, 259}, {8, 1, 70},     {9, 100, 259}};

struct TypeAndBias {
  DType type;
  bool has_bias;
};
constexpr TypeAndBias type_and_bias[] = {
    {DType::f32, false}, {DType::f32, true}, {DType::bf16, false}, {DType::bf16, true}};

Array apply(double (*f)(double), Array values) {
  std::transform(values.begin(), values.end(), values.begin(), f);
  return values;
}

Array operator*(Array a, const Array& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), [](double x, double y) { return x * y; });
  return a;
}

}  // namespace

TEST_CASE("linear agrees with the reference, with and without bias and activation") {
  for (const LinearSizes& s : cases)
    for (const auto& [type, has_bias] : type_and_bias)
      for (const auto& device : devices()) {
        INFO(case_name("linear", {s.rows, s.in, s.out, has_bias}), " ", std::string(name_of(type)), " on ",
             device->name());
        const Array x = rounded(random_floats(s.rows * s.in, 1), type);
        const Array w = rounded(random_floats(s.out * s.in, 2, 0.3), type);
        const Array b = has_bias ? random_floats(s.out, 3) : Array{};
        const Array expected = reference::linear(s, x, w, b);
        const Guarded x_in(type, {s.rows, s.in}, x);
        const Guarded w_in(type, {s.out, s.in}, w);
        const Guarded b_in({s.out}, has_bias ? b : Array(s.out));
        const Tensor bias = has_bias ? Tensor(b_in) : Tensor{};
        const auto queue = device->make_queue();

        const Guarded y(type, {s.rows, s.out});
        device->ops().linear(y, {}, x_in, w_in, bias, Activation::none, *queue);
        CHECK(max_error(y.values(), expected) < tolerance_of(type));
        CHECK(y.intact());

        const Guarded pre(type, {s.rows, s.out});
        const Guarded activated(type, {s.rows, s.out});
        device->ops().linear(activated, pre, x_in, w_in, bias, Activation::gelu, *queue);
        CHECK(max_error(pre.values(), expected) < tolerance_of(type));
        CHECK(max_error(activated.values(), apply(reference::gelu, expected)) < tolerance_of(type));
        CHECK(pre.intact());
        CHECK(activated.intact());
      }
}

TEST_CASE("a row of few has the same bits whatever is beside it, with one and with two threads") {
  constexpr int64_t most = few_rows, in = 275, out = 301;
  for (const DType type : float_types) {
    const Array x = random_floats(most * in, 1);
    const Guarded w(type, {out, in}, random_floats(out * in, 2, 0.3));
    const Guarded b({out}, random_floats(out, 3));
    std::vector<Array> last_rows;
    for (int64_t rows = 1; rows <= most; ++rows)
      for (const auto& device : devices()) {
        // The row is the last of `rows`.
        const Guarded x_in(type, {rows, in}, Array(x.end() - rows * in, x.end()));
        const Guarded y(type, {rows, out}), pre(type, {rows, out});
        device->ops().linear(y, pre, x_in, w, b, Activation::gelu, *device->make_queue());
        const Array values = y.values();
        last_rows.emplace_back(values.end() - out, values.end());
      }
    for (const Array& row : last_rows) CHECK(row == last_rows.front());
  }
}

TEST_CASE("linear gives f32 results of bf16 operands") {
  for (const LinearSizes& s : cases)
    for (const auto& device : devices()) {
      INFO(case_name("linear", {s.rows, s.in, s.out}), " on ", device->name());
      const Array x = rounded(random_floats(s.rows * s.in, 1), DType::bf16);
      const Array w = rounded(random_floats(s.out * s.in, 2, 0.3), DType::bf16);
      const Guarded x_in(DType::bf16, {s.rows, s.in}, x);
      const Guarded w_in(DType::bf16, {s.out, s.in}, w);
      const Guarded y(DType::f32, {s.rows, s.out});
      device->ops().linear(y, {}, x_in, w_in, {}, Activation::none, *device->make_queue());
      CHECK(max_error(y.values(), reference::linear(s, x, w, {})) < tolerance);
      CHECK(y.intact());
    }
}

TEST_CASE("linear_backward_input agrees with the reference, with and without activation") {
  for (const LinearSizes& s : cases)
    for (const DType type : float_types)
      for (const auto& device : devices()) {
        INFO(case_name("linear_backward_input", {s.rows, s.in, s.out}), " ", std::string(name_of(type)),
             " on ", device->name());
        const Array dy = rounded(random_floats(s.rows * s.out, 1), type);
        const Array w = rounded(random_floats(s.out * s.in, 2, 0.3), type);
        const Array pre = rounded(random_floats(s.rows * s.in, 3), type);
        const Array expected = reference::linear_backward_input(s, dy, w);
        const Guarded dy_in(type, {s.rows, s.out}, dy);
        const Guarded w_in(type, {s.out, s.in}, w);
        const Guarded pre_in(type, {s.rows, s.in}, pre);
        const auto queue = device->make_queue();

        const Guarded dx(type, {s.rows, s.in});
        device->ops().linear_backward_input(dx, dy_in, w_in, {}, Activation::none, *queue);
        CHECK(max_error(dx.values(), expected) < tolerance_of(type));
        device->ops().linear_backward_input(dx, dy_in, w_in, pre_in, Activation::gelu, *queue);
        CHECK(max_error(dx.values(), expected * apply(reference::gelu_slope, pre)) < tolerance_of(type));
        CHECK(dx.intact());
      }
}

TEST_CASE("linear_backward_weight agrees with the reference, overwriting and accumulating") {
  for (const LinearSizes& s : cases)
    for (const auto& [type, has_bias] : type_and_bias)
      for (const auto& device : devices()) {
        INFO(case_name("linear_backward_weight", {s.rows, s.in, s.out, has_bias}), " ",
             std::string(name_of(type)), " on ", device->name());
        const Array dy = rounded(random_floats(s.rows * s.out, 1), type);
        const Array x = rounded(random_floats(s.rows * s.in, 2), type);
        const Array dw_before = random_floats(s.out * s.in, 3);
        const Array db_before = random_floats(s.out, 4);
        const Array dw_expected = reference::linear_backward_weight(s, dy, x);
        const Array db_expected = reference::column_sums(s, dy);
        const Guarded dy_in(type, {s.rows, s.out}, dy);
        const Guarded x_in(type, {s.rows, s.in}, x);
        const auto queue = device->make_queue();

        const Guarded dw(DType::f32, {s.out, s.in});
        const Guarded db(DType::f32, {s.out});
        const Tensor bias = has_bias ? Tensor(db) : Tensor{};
        device->ops().linear_backward_weight(dw, bias, dy_in, x_in, Write::overwrite, *queue);
        CHECK(max_error(dw.values(), dw_expected) < tolerance);
        if (has_bias) CHECK(max_error(db.values(), db_expected) < tolerance);
        CHECK(dw.intact());
        CHECK(db.intact());

        const Guarded dw_sum({s.out, s.in}, dw_before);
        const Guarded db_sum({s.out}, db_before);
        const Tensor bias_sum = has_bias ? Tensor(db_sum) : Tensor{};
        device->ops().linear_backward_weight(dw_sum, bias_sum, dy_in, x_in, Write::accumulate, *queue);
        CHECK(max_error(dw_sum.values(), dw_expected + dw_before) < tolerance);
        CHECK(max_error(db_sum.values(), has_bias ? db_expected + db_before : db_before) < tolerance);
        CHECK(dw_sum.intact());
        CHECK(db_sum.intact());
      }
}

TEST_CASE("GELU of bfloat16 is that of f32, rounded once, for every number") {
  constexpr int64_t numbers = 1 << 16;
  Buffer wide_pre(*devices().front(), numbers * 4), wide(*devices().front(), numbers * 4);
  Buffer narrow_pre(*devices().front(), numbers * 2), narrow(*devices().front(), numbers * 2);
  auto* const pre = static_cast<bfloat16*>(narrow_pre.data());
  for (int64_t i = 0; i < numbers; ++i) {
    pre[i].bits = static_cast<uint16_t>(i);
    static_cast<float*>(wide_pre.data())[i] = static_cast<float>(pre[i]);
  }
  for (const auto& device : devices()) {
    const auto queue = device->make_queue();
    const auto activate = [&](const Buffer& y, const Buffer& of, DType type) {
      device->ops().activate(Tensor(y.data(), type, {1, numbers}), Tensor(of.data(), type, {1, numbers}),
                             Activation::gelu, *queue);
    };
    activate(wide, wide_pre, DType::f32);
    activate(narrow, narrow_pre, DType::bf16);
    int64_t different = 0;
    for (int64_t i = 0; i < numbers; ++i) {
      const float expected = static_cast<const float*>(wide.data())[i];
      const bfloat16 got = static_cast<const bfloat16*>(narrow.data())[i];
      const bool subnormal = std::abs(expected) < std::numeric_limits<float>::min();
      const bool both_nan = std::isnan(expected) && std::isnan(static_cast<float>(got));
      const bool both_tiny =
          subnormal && std::abs(static_cast<float>(got)) <= std::numeric_limits<float>::min();
      different += static_cast<int64_t>(got.bits != bfloat16(expected).bits && !both_nan && !both_tiny);
    }
    CHECK(different == 0);
  }
}
