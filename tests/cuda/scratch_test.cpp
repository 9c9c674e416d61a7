#include "device/cuda/cuda_queue.hpp"
#include "device/cuda_scratch.hpp"
#include "device/device.hpp"

#include <doctest/doctest.h>

using namespace gpt;

namespace {

struct Case {
  const char* largest;  ///< whose need decides
  ScratchShape shape;
  int64_t attention_scratch;
};

constexpr int64_t much = int64_t{512} << 20;
const Case cases[] = {
    {"attention",
     {.sequences = 2, .context = 96, .width = 32, .heads = 4, .rows_of_classifier = 128, .type = DType::f32},
     much},
    {"attention of one head",
     {.sequences = 2,
      .context = 300,
      .width = 16,
      .heads = 2,
      .rows_of_classifier = 128,
      .type = DType::bf16},
     1},
    {"classifier",
     {.sequences = 3,
      .context = 16,
      .width = 16,
      .heads = 2,
      .rows_of_classifier = 4096,
      .type = DType::bf16},
     much},
};

}  // namespace

TEST_CASE("operations of a step take the scratch that was planned, and nothing when it is reserved") {
  for (const Case& c : cases) {
    INFO(c.largest);
    const ScratchShape& s = c.shape;
    const CudaOptions options{.attention_scratch = c.attention_scratch};
    const auto device = make_cuda_device(0, options);
    const auto queue = device->make_queue();
    const int64_t rows = s.sequences * s.context;
    const auto make = [&](DType type, std::initializer_list<int64_t> shape) {
      return TensorBuffer(*device, type, shape);
    };
    const TensorBuffer x = make(s.type, {s.sequences, s.context, s.width}),
                       dx = make(s.type, {s.sequences, s.context, s.width}),
                       stream = make(DType::f32, {s.sequences, s.context, s.width}),
                       qkv = make(s.type, {s.sequences, s.context, 3 * s.width}),
                       dqkv = make(s.type, {s.sequences, s.context, 3 * s.width}),
                       log_sum = make(DType::f32, {s.sequences, s.heads, s.context}),
                       w = make(s.type, {s.rows_of_classifier, s.width}),
                       dw = make(DType::f32, {s.rows_of_classifier, s.width}),
                       d_positions = make(DType::f32, {s.context, s.width}),
                       tokens = make(DType::i32, {s.sequences, s.context}),
                       statistic = make(DType::f32, {rows}), weight = make(DType::f32, {s.width}),
                       loss = make(DType::f64, {1});
    Ops& ops = device->ops();
    const auto step = [&](Queue& on) {
      ops.add_norm_backward(stream, dx, weight, weight, x, stream, statistic, statistic, weight, {},
                            Write::accumulate, Write::accumulate, on);
      ops.attention(dx, log_sum, qkv, s.heads, {}, on);
      ops.attention_backward(dqkv, dx, x, qkv, log_sum, s.heads, {}, on);
      ops.classifier(loss, dx, dw, x, w, tokens, s.rows_of_classifier, 1.0F, Write::overwrite, on);
      ops.embed_backward(dw, d_positions, stream, tokens, {}, Write::overwrite, on);
      on.synchronize();
    };
    step(*queue);
    const int64_t taken = cuda_queue(*queue).scratch_bytes();
    CHECK(taken == cuda_scratch_bytes(s, options));
    ops.attention_backward(dqkv, dx, x, qkv, log_sum, s.heads, {}, *queue);
    CHECK(cuda_queue(*queue).scratch_bytes() == taken);

    const auto prepared = device->make_queue();
    device->reserve(*prepared, s);
    CHECK(cuda_queue(*prepared).scratch_bytes() == taken);
    const int64_t free = free_cuda_memory(0);
    step(*prepared);
    CHECK(cuda_queue(*prepared).scratch_bytes() == taken);
    CHECK(free_cuda_memory(0) == free);
  }
}
