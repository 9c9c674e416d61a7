#include "harness.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace gpt;
using namespace gpt::test;
using reference::ClassifierSizes;

namespace {

// rows, width, vocabulary, padded
constexpr ClassifierSizes cases[] = {{1, 1, 1, 1},        {7, 33, 65, 128},   {64, 48, 128, 128},
                                     {1100, 24, 65, 128}, {2050, 16, 50, 50}, {5, 20, 1000, 1024}};
struct TypeAndWrite {
  DType type;
  Write write;
};
constexpr TypeAndWrite type_and_write[] = {{DType::f32, Write::overwrite},
                                           {DType::f32, Write::accumulate},
                                           {DType::bf16, Write::overwrite},
                                           {DType::bf16, Write::accumulate}};
constexpr float scale = 0.01F;
constexpr double loss_before = 100.0;

}  // namespace

TEST_CASE("classifier agrees with the reference, overwriting and accumulating") {
  for (const ClassifierSizes& s : cases)
    for (const auto& [type, write] : type_and_write)
      for (const auto& device : devices()) {
        INFO(case_name("classifier", {s.rows, s.width, s.vocabulary, s.padded, write == Write::accumulate}),
             " ", std::string(name_of(type)), " on ", device->name());
        const bool adds = write == Write::accumulate;
        const Array x = rounded(random_floats(s.rows * s.width, 1), type);
        const Array w = rounded(random_floats(s.padded * s.width, 2, 0.3), type);
        const Tokens targets = random_tokens(s.rows, s.vocabulary, 3);
        const Array before = random_floats(s.padded * s.width, 4, 0.01);
        const double loss = reference::classifier_loss(s, x, w, targets);
        const auto expected = reference::classifier_backward(s, x, w, targets, static_cast<double>(scale));

        const Guarded x_in(type, {s.rows, s.width}, x);
        const Guarded w_in(type, {s.padded, s.width}, w);
        const Guarded targets_in({s.rows}, targets);
        const double loss_tolerance = type == DType::bf16 ? 1e-3 : 1e-6;
        const Guarded loss_sum(DType::f64, {1});
        Tensor(loss_sum).data<double>()[0] = loss_before;
        const Guarded dx(type, {s.rows, s.width});
        const Guarded dw =
            adds ? Guarded({s.padded, s.width}, before) : Guarded(DType::f32, {s.padded, s.width});
        const auto queue = device->make_queue();
        device->ops().classifier(loss_sum, dx, dw, x_in, w_in, targets_in, s.vocabulary, scale, write,
                                 *queue);
        CHECK(max_error(loss_sum.values(), {loss_before + loss}) < loss_tolerance);
        if (s.vocabulary > 1) CHECK(max_error(dx.values(), expected.dx) < tolerance_of(type));
        if (s.vocabulary > 1)
          CHECK(max_error(dw.values(), adds ? expected.dw + before : expected.dw) < tolerance_of(type));
        for (const Guarded* output : {&loss_sum, &dx, &dw}) CHECK(output->intact());

        const Array dw_values = dw.values();
        for (int64_t i = s.vocabulary * s.width; i < s.padded * s.width; ++i)
          REQUIRE(dw_values[i] == (adds ? before[i] : 0.0));

        device->ops().classifier(loss_sum, {}, {}, x_in, w_in, targets_in, s.vocabulary, scale, write,
                                 *queue);
        CHECK(max_error(loss_sum.values(), {loss_before + 2.0 * loss}) < loss_tolerance);
      }
}

TEST_CASE("the target's gradient keeps its digits however likely the target is") {
  // One row x = (1, 0, …): the logits are the first column of w, and dw's first column is their gradient.
  constexpr int64_t width = 8, vocabulary = 99, padded = 128, target = 70;
  Array x(width, 0.0);
  x[0] = 1.0;
  for (double logit : {-4.0, 0.0, 3.0, 5.0, 8.0, 12.0, 20.0})
    for (DType type : float_types)
      for (const auto& device : devices()) {
        INFO("logit ", logit, " ", std::string(name_of(type)), " on ", device->name());
        Array w(padded * width, 0.0);
        w[target * width] = logit;
        const Guarded loss(DType::f64, {1}), dx(type, {1, width}), dw(DType::f32, {padded, width});
        Tensor(loss).data<double>()[0] = 0.0;
        device->ops().classifier(loss, dx, dw, Guarded(type, {1, width}, x),
                                 Guarded(type, {padded, width}, w), Guarded({1}, Tokens{target}), vocabulary,
                                 scale, Write::overwrite, *device->make_queue());
        const double others = static_cast<double>(vocabulary - 1) * std::exp(-logit);
        const double expected = -static_cast<double>(scale) * others / (1.0 + others);
        // One rounding to bf16, of what sums and exponentials in f32 are off by.
        const double allowed = type == DType::bf16 ? 0x1p-8 + 1e-6 : 1e-6;
        CHECK(std::abs(dw.values()[target * width] / expected - 1.0) < allowed);
        CHECK(loss.values()[0] == doctest::Approx(std::log1p(others)).epsilon(1e-6));
      }
}

TEST_CASE("classifier accepts (B,T,C) and (B,T) as it does rows") {
  const Array x = random_floats(6 * 8, 1);
  const Array w = random_floats(16 * 8, 2);
  const Tokens targets = random_tokens(6, 16, 3);
  const Guarded dx(DType::f32, {2, 3, 8});
  const Guarded dw(DType::f32, {16, 8});
  const auto& device = devices().front();
  const Guarded loss(DType::f64, {1});
  Tensor(loss).data<double>()[0] = 0.0;
  device->ops().classifier(loss, dx, dw, Guarded({2, 3, 8}, x), Guarded({16, 8}, w), Guarded({2, 3}, targets),
                           16, 1.0F, Write::overwrite, *device->make_queue());
  const auto expected = reference::classifier_backward({6, 8, 16, 16}, x, w, targets, 1.0);
  CHECK(max_error(dx.values(), expected.dx) < tolerance);
}

TEST_CASE("classifier passes NaN on to the loss") {
  Array x = random_floats(3 * 8, 1);
  x[9] = std::numeric_limits<double>::quiet_NaN();
  const Guarded loss(DType::f64, {1});
  Tensor(loss).data<double>()[0] = 0.0;
  const auto& device = devices().front();
  device->ops().classifier(loss, {}, {}, Guarded({3, 8}, x), Guarded({16, 8}, random_floats(128, 2)),
                           Guarded({3}, Tokens{1, 2, 3}), 16, 1.0F, Write::overwrite, *device->make_queue());
  CHECK(std::isnan(loss.values()[0]));
}
