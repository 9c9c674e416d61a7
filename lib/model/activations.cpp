#include "model/activations.hpp"

namespace gpt {
namespace {

/// Counts what it is asked for, and gives nothing: what is made of it is empty.
class ByteCounter : public Allocator {
public:
  void* allocate(int64_t bytes) override {
    counted += bytes;
    return nullptr;
  }
  void release(void*, int64_t) override {}

  int64_t counted = 0;
};

/// Which activations every block has of its own.
struct Kept {
  bool input;    ///< of a block
  bool entries;  ///< of attention, the second norm and the activation: what these are computed again from
  bool results;  ///< of norms, attention and activation
};

Kept kept(Recompute recompute, bool backward) {
  return {.input = backward,
          .entries = backward && recompute != Recompute::block,
          .results = backward && recompute == Recompute::none};
}

}  // namespace

Activations::Activations(const GptConfig& config, Allocator& allocator, int64_t sequences, DType dtype,
                         Recompute recompute, bool backward) {
  const int64_t rows = sequences * config.context, width = config.width;
  const auto statistics = [&] { return make(allocator, DType::f32, {rows}); };
  const auto wide = [&](DType type, int64_t columns) {
    return make(allocator, type, {sequences, config.context, columns});
  };

  const Kept keeps = kept(recompute, backward);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool first = blocks.empty();
    BlockActivations block = first ? BlockActivations{} : blocks.front();
    if (first || keeps.input) block.input = wide(DType::f32, width);
    if (first || keeps.entries) {
      block.qkv = wide(dtype, 3 * width);
      block.middle = wide(DType::f32, width);
      block.expanded_pre = wide(dtype, 4 * width);
    }
    if (first || keeps.results) {
      block.normed1 = wide(dtype, width);
      block.mean1 = statistics();
      block.rstd1 = statistics();
      block.log_sum = make(allocator, DType::f32, {sequences, config.heads, config.context});
      block.attended = wide(dtype, width);
      block.normed2 = wide(dtype, width);
      block.mean2 = statistics();
      block.rstd2 = statistics();
      block.expanded = wide(dtype, 4 * width);
    }
    blocks.push_back(block);
  }
  branch = wide(dtype, width);
  output = wide(DType::f32, width);
  normed = wide(dtype, width);
  mean = statistics();
  rstd = statistics();
  if (!backward) return;
  d_residual = wide(DType::f32, width);
  d_branch = wide(dtype, width);
  d_normed = wide(dtype, width);
  d_qkv = wide(dtype, 3 * width);
  d_expanded = keeps.results ? wide(dtype, 4 * width) : blocks.front().expanded;
  d_attended = wide(dtype, width);
}

Tensor Activations::make(Allocator& allocator, DType dtype, std::initializer_list<int64_t> shape) {
  const TensorBuffer& buffer = buffers_.emplace_back(allocator, dtype, shape);
  bytes += buffer->bytes();
  return buffer;
}

int64_t activation_bytes(const GptConfig& config, int64_t sequences, DType dtype, Recompute recompute,
                         bool backward) {
  ByteCounter counter;
  const Activations activations(config, counter, sequences, dtype, recompute, backward);
  return counter.counted;
}

}  // namespace gpt
