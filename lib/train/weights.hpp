#pragma once

#include "device/device.hpp"
#include "model/gpt.hpp"
#include "model/layout.hpp"
#include "train/device_state.hpp"
#include "train/owned_parts.hpp"
#include "train/packed_parts.hpp"

#include <cstdint>
#include <optional>

namespace gpt {

/// What ranks spread of their weights (ZeRO-1): all that the model reads.
struct SpreadWeights {
  /// @param memory  may be shared; allocating there is collective then
  SpreadWeights(const Layout& layout, DType type, Allocator& memory);

  TensorBuffer f32;       ///< all elements, or beside bf16 the vectors
  TensorBuffer bfloat16;  ///< matrices, or empty
};

/// A run's weights on this rank: what the model reads, and the master copy in f32 that the optimizer updates.
///
///                    matrices                                      vectors
///     f32            f32, all                                      f32, all
///     bf16           bf16, all, rounded from a master, f32, all    f32, all
///     bf16, ZeRO-1   bf16, all, and a master of the rank's own     f32, all
///
/// Vectors are few, and what the model reads of them is the master itself.
class Weights {
public:
  /// All of them. @param type  of matrices: f32 or bf16
  Weights(const Layout& layout, Device& device, DType type);

  /// ZeRO-1: with bf16 a master only of what this rank updates.
  Weights(const Layout& layout, Device& device, const OwnedParts& owned, SpreadWeights spread);

  FlatParameters with(Tensor gradients) const {
    return {.matrices = matrices_, .vectors = vectors_, .gradients = gradients};
  }

  /// The master of `elements`, f32. @param elements  matrices or vectors, within what this rank updates
  Tensor master(Range elements) const;
  /// What is rounded from it; empty where the model reads the master.
  Tensor rounded(Range elements) const;
  /// What the model reads of `elements`, matrices or vectors.
  Tensor read(Range elements) const;

  /// The master as checkpoints hold it: "params".
  DeviceState state() const;
  /// What the model reads follows the master, as far as this rank holds that.
  void round(Queue& queue);
  /// Whether what the model reads then still lacks other ranks' parts.
  bool is_divided() const { return packed_.has_value(); }

  int64_t bytes() const { return f32_->bytes() + bfloat16_->bytes() + master_->bytes(); }

private:
  Layout layout_;
  Ops& ops_;
  std::optional<PackedParts> packed_;  // of matrices, in master_
  TensorBuffer f32_;                   // all elements, or with packed_ the vectors
  TensorBuffer bfloat16_;              // matrices
  TensorBuffer master_;                // f32, where it is packed
  Tensor matrices_, vectors_;
};

/// Gives the master initialize_weights' values. Takes room for all of them on the host meanwhile.
void set_initial_weights(const Weights& weights, const Layout& layout, const GptConfig& config, uint64_t seed,
                         Queue& queue);

}  // namespace gpt
