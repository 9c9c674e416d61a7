#include "model/activations.hpp"

#include <cstddef>
#include <utility>

namespace gpt {
namespace {

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

/// Cuts memory into tensors, one behind the other; without memory it counts what they take, and gives tensors
/// that are not there.
class Activations::Cutter {
public:
  explicit Cutter(void* memory, int64_t& used) : memory_(static_cast<std::byte*>(memory)), used_(used) {}

  Tensor cut(DType dtype, std::initializer_list<int64_t> shape) {
    constexpr int64_t alignment = 64;
    int64_t bytes = size_of(dtype);
    for (const int64_t extent : shape) bytes *= extent;
    std::byte* const data = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(bytes, alignment);
    return {data, dtype, shape};
  }

private:
  std::byte* memory_;
  int64_t& used_;
};

int64_t activation_bytes(const GptConfig& config, int64_t sequences, DType dtype, Recompute recompute,
                         bool backward) {
  int64_t bytes = 0;
  const Activations nothing(config, sequences, dtype, recompute, backward,
                            Activations::Cutter(nullptr, bytes));
  return bytes;
}

Activations::Activations(const GptConfig& config, Allocator& allocator, int64_t sequences, DType dtype,
                         Recompute recompute, bool backward) {
  Buffer memory(allocator, activation_bytes(config, sequences, dtype, recompute, backward));
  int64_t used = 0;
  *this = Activations(config, sequences, dtype, recompute, backward, Cutter(memory.data(), used));
  ensures(used == memory.bytes());
  buffer_ = std::move(memory);
}

Activations::Activations(const GptConfig& config, int64_t sequences, DType dtype, Recompute recompute,
                         bool backward, Cutter cutter) {
  const int64_t rows = sequences * config.context, width = config.width;
  const auto statistics = [&] { return cutter.cut(DType::f32, {rows}); };
  const auto wide = [&](DType type, int64_t columns) {
    return cutter.cut(type, {sequences, config.context, columns});
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
      block.log_sum = cutter.cut(DType::f32, {sequences, config.heads, config.context});
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

}  // namespace gpt
