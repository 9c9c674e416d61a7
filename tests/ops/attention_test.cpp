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

/// Every result of attention, its backward and attention_cached.
std::vector<Array> run_attention(Device& device, DType type, const AttentionSizes& s,
                                 const Dropout& dropout) {
  const int64_t elements = s.sequences * s.positions * s.width();
  const Guarded qkv(type, {s.sequences, s.positions, 3 * s.width()}, random_floats(3 * elements, 1));
  const Guarded dy(type, {s.sequences, s.positions, s.width()}, random_floats(elements, 2));
  const Guarded y(type, {s.sequences, s.positions, s.width()});
  const Guarded log_sum(DType::f32, {s.sequences, s.heads, s.positions});
  const Guarded dqkv(type, {s.sequences, s.positions, 3 * s.width()});
  const Guarded y_cached(type, {s.positions, s.width()});
  const Guarded keys(type, {s.positions, s.width()});
  const Guarded values(type, {s.positions, s.width()});
  const auto queue = device.make_queue();
  device.ops().attention(y, log_sum, qkv, s.heads, dropout, *queue);
  device.ops().attention_backward(dqkv, dy, y, qkv, log_sum, s.heads, dropout, *queue);
  device.ops().attention_cached(y_cached, keys, values,
                                Tensor(qkv).slice({0, 1}).view({s.positions, 3 * s.width()}), 0, s.heads,
                                *queue);
  std::vector<Array> results;
  for (const Guarded* tensor : {&y, &log_sum, &dqkv, &y_cached, &keys, &values})
    results.push_back(tensor->values());
  return results;
}

}  // namespace

TEST_CASE("attention and its backward agree with the reference") {
  for (const AttentionSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (DType type : float_types) {
        const int64_t elements = s.sequences * s.positions * s.width();
        const Array qkv = rounded(random_floats(3 * elements, 1), type);
        const Array dy = rounded(random_floats(elements, 2), type);
        const auto expected = reference::attention(s, qkv, dropout);
        const Array expected_dqkv = reference::attention_backward(s, dy, qkv, dropout);
        for (const auto& device : devices()) {
          INFO(case_name("attention", {s.sequences, s.positions, s.heads, s.head_size}), " dropout ",
               dropout.rate, ' ', name_of(type), " on ", device->name());
          const Guarded qkv_in(type, {s.sequences, s.positions, 3 * s.width()}, qkv);
          const Guarded y(type, {s.sequences, s.positions, s.width()});
          const Guarded log_sum(DType::f32, {s.sequences, s.heads, s.positions});
          const auto queue = device->make_queue();
          device->ops().attention(y, log_sum, qkv_in, s.heads, dropout, *queue);
          CHECK(max_error(y.values(), expected.y) < tolerance_of(type));
          CHECK(max_error(log_sum.values(), expected.log_sum) < tolerance);
          CHECK(y.intact());
          CHECK(log_sum.intact());

          const Guarded dy_in(type, {s.sequences, s.positions, s.width()}, dy);
          const Guarded dqkv(type, {s.sequences, s.positions, 3 * s.width()});
          device->ops().attention_backward(dqkv, dy_in, y, qkv_in, log_sum, s.heads, dropout, *queue);
          // In bf16 it is made of weights and of a y that are both rounded.
          CHECK(max_error(dqkv.values(), expected_dqkv) < 1.5 * tolerance_of(type));
          CHECK(dqkv.intact());
        }
      }
}

TEST_CASE("attention survives scores far apart") {
  const AttentionSizes s{1, 70, 1, 16};
  for (DType type : float_types) {
    const Array qkv = rounded(random_floats(s.positions * 3 * s.width(), 1, 30.0), type);
    const auto expected = reference::attention(s, qkv, {});
    const Guarded qkv_in(type, {1, s.positions, 3 * s.width()}, qkv);
    const Guarded y(type, {1, s.positions, s.width()});
    const Guarded log_sum(DType::f32, {1, 1, s.positions});
    // A score of 10⁴ has an absolute rounding error of 10⁻³.
    const double tolerance_of_y = std::max(1e-3, tolerance_of(type));
    for (const auto& device : devices()) {
      INFO(name_of(type), " on ", device->name());
      device->ops().attention(y, log_sum, qkv_in, 1, {}, *device->make_queue());
      CHECK(max_error(y.values(), expected.y) < tolerance_of_y);
      CHECK(max_error(log_sum.values(), expected.log_sum) < tolerance);
    }
  }
}

TEST_CASE("attention gives the same bits every time, with one and with two threads") {
  for (const AttentionSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (DType type : float_types) {
        INFO(case_name("attention", {s.sequences, s.positions, s.heads, s.head_size}), " dropout ",
             dropout.rate, ' ', name_of(type));
        const auto once = run_attention(*devices().front(), type, s, dropout);
        CHECK(once == run_attention(*devices().front(), type, s, dropout));
        CHECK(once == run_attention(*devices().back(), type, s, dropout));
      }
}

TEST_CASE("attention_cached agrees with attention over the whole sequence, however it is cut") {
  for (const AttentionSizes& s : cases)
    for (DType type : float_types) {
      const AttentionSizes one{1, s.positions, s.heads, s.head_size};
      const int64_t width = s.width();
      const int64_t context = s.positions + 3;
      const Array qkv = rounded(random_floats(3 * s.positions * width, 1), type);
      const Array expected = reference::attention(one, qkv, {}).y;
      for (int64_t cut : {int64_t{1}, int64_t{5}, s.positions})
        for (const auto& device : devices()) {
          INFO(case_name("attention_cached", {s.positions, s.heads, s.head_size, cut}), ' ', name_of(type),
               " on ", device->name());
          const Guarded qkv_in(type, {s.positions, 3 * width}, qkv);
          const Guarded y(type, {s.positions, width});
          const Guarded keys(type, {context, width});
          const Guarded values(type, {context, width});
          const auto queue = device->make_queue();
          for (int64_t position = 0; position < s.positions; position += cut) {
            const Range piece{position, std::min(position + cut, s.positions)};
            device->ops().attention_cached(Tensor(y).slice(piece), keys, values, Tensor(qkv_in).slice(piece),
                                           position, s.heads, *queue);
          }
          CHECK(max_error(y.values(), expected) < tolerance_of(type));
          for (const Guarded* output : {&y, &keys, &values}) CHECK(output->intact());
          const Array written_keys = keys.values();
          const Array written_values = values.values();
          bool kept = true;
          for (int64_t i = 0; i < s.positions * width; ++i) {
            const double* row = qkv.data() + i / width * 3 * width + i % width;
            kept = kept && written_keys[i] == row[width] && written_values[i] == row[2 * width];
          }
          CHECK(kept);
        }
    }
}
