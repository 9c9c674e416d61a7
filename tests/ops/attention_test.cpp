#include "harness.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;
using reference::AttentionSizes;

namespace {

// sequences, positions, heads, head_size
constexpr AttentionSizes cases[] = {{1, 1, 1, 1},    {1, 1, 2, 8},    {2, 7, 3, 5},   {2, 65, 2, 20},
                                    {1, 257, 1, 64}, {3, 64, 4, 32},  {2, 33, 3, 8},  {1, 128, 2, 64},
                                    {1, 130, 2, 40}, {1, 63, 1, 128}, {1, 16, 1, 16}, {1, 17, 1, 17},
                                    {1, 193, 1, 8}};
constexpr Dropout none{};
constexpr Dropout dropping{.rate = 0.25F, .seed = 77, .step = 12, .site = 9, .first_sequence = 3};

}  // namespace

TEST_CASE("attention and its backward agree with the reference") {
  for (const AttentionSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (const auto& device : devices()) {
        INFO(case_name("attention", {s.sequences, s.positions, s.heads, s.head_size}), " dropout ",
             dropout.rate, " on ", device->name());
        const int64_t elements = s.sequences * s.positions * s.width();
        const Array qkv = random_floats(3 * elements, 1);
        const Array dy = random_floats(elements, 2);
        const auto expected = reference::attention(s, qkv, dropout);

        const Guarded qkv_in({s.sequences, s.positions, 3 * s.width()}, qkv);
        const Guarded y(DType::f32, {s.sequences, s.positions, s.width()});
        const Guarded log_sum(DType::f32, {s.sequences, s.heads, s.positions});
        const auto queue = device->make_queue();
        device->ops().attention(y, log_sum, qkv_in, s.heads, dropout, *queue);
        CHECK(max_error(y.values(), expected.y) < tolerance);
        CHECK(max_error(log_sum.values(), expected.log_sum) < tolerance);
        CHECK(y.intact());
        CHECK(log_sum.intact());

        const Guarded dy_in({s.sequences, s.positions, s.width()}, dy);
        const Guarded dqkv(DType::f32, {s.sequences, s.positions, 3 * s.width()});
        device->ops().attention_backward(dqkv, dy_in, y, qkv_in, log_sum, s.heads, dropout, *queue);
        CHECK(max_error(dqkv.values(), reference::attention_backward(s, dy, qkv, dropout)) < tolerance);
        CHECK(dqkv.intact());
      }
}

TEST_CASE("attention survives scores far apart") {
  const AttentionSizes s{1, 70, 1, 16};
  const Array qkv = random_floats(s.positions * 3 * s.width(), 1, 30.0);
  const auto expected = reference::attention(s, qkv, {});
  const Guarded qkv_in({1, s.positions, 3 * s.width()}, qkv);
  const Guarded y(DType::f32, {1, s.positions, s.width()});
  const Guarded log_sum(DType::f32, {1, 1, s.positions});
  for (const auto& device : devices()) {
    device->ops().attention(y, log_sum, qkv_in, 1, {}, *device->make_queue());
    CHECK(max_error(y.values(), expected.y) < 1e-3);  // a score of 10⁴ has an absolute rounding error of 10⁻³
    CHECK(max_error(log_sum.values(), expected.log_sum) < tolerance);
  }
}

TEST_CASE("attention_cached agrees with attention over the whole sequence, however it is cut") {
  for (const AttentionSizes& s : cases)
    for (int64_t cut : {int64_t{1}, int64_t{5}, s.positions})
      for (const auto& device : devices()) {
        INFO(case_name("attention_cached", {s.positions, s.heads, s.head_size, cut}), " on ", device->name());
        const AttentionSizes one{1, s.positions, s.heads, s.head_size};
        const int64_t width = s.width();
        const int64_t context = s.positions + 3;
        const Array qkv = random_floats(3 * s.positions * width, 1);
        const Guarded qkv_in({s.positions, 3 * width}, qkv);
        const Guarded y(DType::f32, {s.positions, width});
        const Guarded keys(DType::f32, {context, width});
        const Guarded values(DType::f32, {context, width});
        const auto queue = device->make_queue();
        for (int64_t position = 0; position < s.positions; position += cut) {
          const Range piece{position, std::min(position + cut, s.positions)};
          device->ops().attention_cached(Tensor(y).slice(piece), keys, values, Tensor(qkv_in).slice(piece),
                                         position, s.heads, *queue);
        }
        CHECK(max_error(y.values(), reference::attention(one, qkv, {}).y) < tolerance);
        for (const Guarded* output : {&y, &keys, &values}) CHECK(output->intact());
        CHECK(keys.values()[(s.positions - 1) * width] == qkv[(s.positions - 1) * 3 * width + width]);
        CHECK(values.values()[(s.positions - 1) * width] == qkv[(s.positions - 1) * 3 * width + 2 * width]);
      }
}
