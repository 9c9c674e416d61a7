#include "harness.hpp"

#include <doctest/doctest.h>

using namespace gpt;
using namespace gpt::test;

namespace {

constexpr int64_t sequences = 3;
constexpr int64_t positions = 50;
constexpr int64_t width = 72;
constexpr int64_t heads = 3;
constexpr int64_t vocabulary = 61;
constexpr int64_t padded = 128;
constexpr Dropout dropping{.rate = 0.1F, .seed = 1, .step = 2, .site = 3, .first_sequence = 4};

Guarded random_tensor(std::initializer_list<int64_t> shape, uint64_t key, DType type = DType::f32) {
  int64_t size = 1;
  for (int64_t extent : shape) size *= extent;
  return {type, shape, random_floats(size, key)};
}

std::vector<Array> values_of(std::initializer_list<const Guarded*> tensors) {
  std::vector<Array> results;
  for (const Guarded* tensor : tensors) results.push_back(tensor->values());
  return results;
}

/// Every result of the operations on rows: tables of embeddings and norms.
std::vector<Array> run_rows(Device& device, DType type) {
  Ops& ops = device.ops();
  const auto queue = device.make_queue();
  const Guarded tokens({sequences, positions}, random_tokens(sequences * positions, vocabulary, 1));
  const Guarded wte = random_tensor({padded, width}, 2, type);
  const Guarded wpe = random_tensor({positions, width}, 3, type);
  const Guarded weight = random_tensor({width}, 4);
  const Guarded delta = random_tensor({sequences, positions, width}, 5, type);
  const Guarded dy = random_tensor({sequences, positions, width}, 6, type);
  const Guarded x(DType::f32, {sequences, positions, width});
  const Guarded sum(DType::f32, {sequences, positions, width});
  const Guarded y(type, {sequences, positions, width});
  const Guarded mean(DType::f32, {sequences * positions});
  const Guarded rstd(DType::f32, {sequences * positions});
  ops.embed(x, tokens, wte, wpe, 0, dropping, *queue);
  ops.add_norm(sum, y, mean, rstd, x, delta, weight, weight, dropping, *queue);

  const Guarded dx(DType::f32, {sequences, positions, width});
  const Guarded d_delta(type, {sequences, positions, width});
  const Guarded d_weight(DType::f32, {width});
  const Guarded d_bias(DType::f32, {width});
  ops.add_norm_backward(dx, d_delta, d_weight, d_bias, dy, sum, mean, rstd, weight, dropping,
                        Write::overwrite, Write::overwrite, *queue);
  const Guarded d_wte({padded, width}, Array(padded * width));
  const Guarded d_wpe(DType::f32, {positions, width});
  ops.embed_backward(d_wte, d_wpe, dx, tokens, dropping, Write::overwrite, *queue);

  const Guarded sums(DType::f64, {ceil_div(padded * width, 1024)});
  ops.square_sums(sums, Tensor(d_wte).view({padded * width}), *queue);
  return values_of({&x, &sum, &y, &mean, &rstd, &dx, &d_delta, &d_weight, &d_bias, &d_wte, &d_wpe, &sums});
}

/// Every result of attention.
std::vector<Array> run_attention(Device& device, DType type, const Dropout& dropout = dropping) {
  Ops& ops = device.ops();
  const auto queue = device.make_queue();
  const Guarded qkv = random_tensor({sequences, positions, 3 * width}, 5, type);
  const Guarded dy = random_tensor({sequences, positions, width}, 6, type);
  const Guarded attended(type, {sequences, positions, width});
  const Guarded log_sum(DType::f32, {sequences, heads, positions});
  const Guarded dqkv(type, {sequences, positions, 3 * width});
  ops.attention(attended, log_sum, qkv, heads, dropout, *queue);
  ops.attention_backward(dqkv, dy, attended, qkv, log_sum, heads, dropout, *queue);
  return values_of({&attended, &log_sum, &dqkv});
}

/// Every result of the matrix products, the classifier's among them.
std::vector<Array> run_products(Device& device, DType type) {
  Ops& ops = device.ops();
  const auto queue = device.make_queue();
  constexpr int64_t rows = sequences * positions;
  const Guarded x = random_tensor({rows, width}, 1, type);
  const Guarded w = random_tensor({padded, width}, 2, type);
  const Guarded b = random_tensor({padded}, 3);
  const Guarded y(type, {rows, padded});
  const Guarded pre(type, {rows, padded});
  ops.linear(y, pre, x, w, b, Activation::gelu, *queue);
  const Guarded dx(type, {rows, width});
  ops.linear_backward_input(dx, y, w, x, Activation::gelu, *queue);
  const Guarded dw = random_tensor({padded, width}, 4);
  const Guarded db = random_tensor({padded}, 5);
  ops.linear_backward_weight(dw, db, y, x, Write::accumulate, *queue);
  const Guarded loss(DType::f64, {1});
  Tensor(loss).data<double>()[0] = 0.0;
  const Guarded d_hidden(type, {rows, width});
  const Guarded d_wte(DType::f32, {padded, width});
  ops.classifier(loss, d_hidden, d_wte, x, w, Guarded({rows}, random_tokens(rows, vocabulary, 6)), vocabulary,
                 0.1F, Write::overwrite, *queue);
  return values_of({&y, &pre, &dx, &dw, &db, &loss, &d_hidden, &d_wte});
}

}  // namespace

TEST_CASE("operations give the same bits every time") {
  for (const auto& device : devices())
    for (int i = 0; i < 3; ++i)
      for (DType type : float_types) {
        CHECK(run_rows(*device, type) == run_rows(*device, type));
        CHECK(run_attention(*device, type) == run_attention(*device, type));
        CHECK(run_attention(*device, type, {}) == run_attention(*device, type, {}));
        CHECK(run_products(*device, type) == run_products(*device, type));
      }
}

TEST_CASE("operations without matrix products give the same bits with one and with two threads" *
          doctest::test_suite("cpu")) {
  for (DType type : float_types) {
    CHECK(run_rows(*devices().front(), type) == run_rows(*devices().back(), type));
    CHECK(run_attention(*devices().front(), type) == run_attention(*devices().back(), type));
  }
}

TEST_CASE("matrix products agree with one and with two threads") {
  for (DType type : float_types) {
    const auto one = run_products(*devices().front(), type);
    const auto two = run_products(*devices().back(), type);
    for (size_t i = 0; i < one.size(); ++i) CHECK(max_error(one[i], two[i]) < tolerance_of(type));
  }
}
