#include "attention_case.hpp"
#include "device/cpu/attention_heads.hpp"

#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;
using reference::AttentionSizes;

namespace {

// sequences, positions, heads, head_size: whole tiles, odd numbers of positions, one beyond a tile; heads of
// multiples of 32, which matrix tiles serve, with positions on both sides of the 16 and 32 that these take.
constexpr AttentionSizes cases[] = {{1, 1, 1, 1},   {2, 7, 3, 5},    {1, 33, 2, 20},  {1, 64, 2, 32},
                                    {1, 65, 1, 8},  {1, 127, 1, 64}, {1, 129, 2, 17}, {2, 1, 1, 32},
                                    {1, 15, 2, 32}, {1, 17, 1, 64},  {1, 32, 1, 96},  {1, 47, 1, 128},
                                    {1, 49, 2, 64}, {1, 80, 1, 128}, {1, 97, 1, 32},  {2, 200, 2, 64}};
constexpr Dropout none{};
constexpr Dropout dropping{.rate = 0.25F, .seed = 77, .step = 12, .site = 9, .first_sequence = 3};

struct Results {
  Array y, log_sum, dqkv;
  bool intact = true;
};

/// Attention and its backward by their kernels, whose scratch holds NaN before.
template <class Element>
Results attend_and_return(DType type, const AttentionSizes& s, const Dropout& dropout,
                          Bfloat16Products products, const Array& qkv, const Array& dy) {
  const AttentionShape shape{
      .positions = s.positions, .heads = s.heads, .head_size = s.head_size, .dropout = plan_dropout(dropout)};
  const Guarded qkv_in(type, {s.sequences, s.positions, 3 * s.width()}, qkv);
  const Guarded dy_in(type, {s.sequences, s.positions, s.width()}, dy);
  const Guarded y(type, {s.sequences, s.positions, s.width()});
  const Guarded log_sum(DType::f32, {s.sequences, s.heads, s.positions});
  const Guarded dqkv(type, {s.sequences, s.positions, 3 * s.width()});
  const Guarded forward_scratch(DType::f32, {attention_forward_scratch(shape)});
  const Guarded backward_scratch(DType::f32, {attention_backward_scratch(shape)});
  const auto data = [](const Guarded& tensor) { return Tensor(tensor).data<Element>(); };
  const auto floats = [](const Guarded& tensor) { return Tensor(tensor).data<float>(); };
  const Range heads{0, s.sequences * s.heads};
  attention_forward(AttentionForward<Element>{.y = data(y),
                                              .log_sum = floats(log_sum),
                                              .qkv = data(qkv_in),
                                              .shape = shape,
                                              .products = products},
                    heads, floats(forward_scratch));
  attention_backward(AttentionBackward<Element>{.dqkv = data(dqkv),
                                                .dy = data(dy_in),
                                                .y = data(y),
                                                .qkv = data(qkv_in),
                                                .log_sum = floats(log_sum),
                                                .shape = shape,
                                                .products = products},
                     heads, floats(backward_scratch));
  Results results{.y = y.values(), .log_sum = log_sum.values(), .dqkv = dqkv.values()};
  for (const Guarded* tensor : {&y, &log_sum, &dqkv, &forward_scratch, &backward_scratch})
    results.intact = results.intact && tensor->intact();
  return results;
}

Results attend_and_return(DType type, const AttentionSizes& s, const Dropout& dropout,
                          Bfloat16Products products, const Array& qkv, const Array& dy) {
  devices();  // limits the instructions, if that is asked for
  return type == DType::bf16 ? attend_and_return<bfloat16>(type, s, dropout, products, qkv, dy)
                             : attend_and_return<float>(type, s, dropout, products, qkv, dy);
}

}  // namespace

TEST_CASE("attention needs nothing of its scratch, with tiles, with pairs and with single words") {
  for (const AttentionSizes& s : cases)
    for (const Dropout& dropout : {none, dropping})
      for (DType type : float_types) {
        const AttentionCase given = attention_case(s, dropout, type);
        for (Bfloat16Products products :
             {Bfloat16Products::best, Bfloat16Products::pairs, Bfloat16Products::single}) {
          INFO(attention_name(s, dropout, type), " products ", static_cast<int>(products));
          const Results results = attend_and_return(type, s, dropout, products, given.qkv, given.dy);
          CHECK(max_error(results.y, given.expected.y) < tolerance_of(type));
          CHECK(max_error(results.log_sum, given.expected.log_sum) < tolerance);
          const bool in_pairs = products != Bfloat16Products::single && multiplies_pairs();
          check_gradients(s, type, in_pairs, results.dqkv, given.expected_dqkv);
          CHECK(results.intact);
        }
      }
}

TEST_CASE("bfloat16 is multiplied in pairs where the processor can, unless single words are asked for") {
  const AttentionSizes s{1, 33, 2, 20};
  const int64_t elements = s.positions * s.width();
  const Array qkv = random_floats(3 * elements, 1), dy = random_floats(elements, 2);
  const Results best = attend_and_return(DType::bf16, s, {}, Bfloat16Products::best, qkv, dy);
  const Results single = attend_and_return(DType::bf16, s, {}, Bfloat16Products::single, qkv, dy);
  // Weights are rounded for pairs alone.
  CHECK((best.y != single.y) == multiplies_pairs());
  CHECK((best.dqkv != single.dqkv) == multiplies_pairs());
}
