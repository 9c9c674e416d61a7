#pragma once

#include "device/device.hpp"
#include "model/gpt.hpp"
#include "model/layout.hpp"
#include "train/device_state.hpp"
#include "train/owned_parts.hpp"
#include "train/packed_parts.hpp"
#include "train/read_weights.hpp"

#include <cstdint>

namespace gpt {

/// A run's weights on this rank: what the model reads, and the master copy in f32 that the optimizer updates.
///
///                    matrices                                           vectors
///     f32            f32, all                                           f32, all
///     bf16           bf16, all, rounded from a master in f32, all       f32, all
///     bf16, ZeRO-1   bf16, all, and a master of what the rank updates   f32, all
///
/// What the model reads in f32 is the master itself.
class Weights {
public:
  /// A master of everything. @param type  of matrices: f32 or bf16
  Weights(const Layout& layout, Device& device, DType type);

  /// A master of what this rank updates, and of what is read in f32.
  Weights(const Layout& layout, Device& device, const OwnedParts& owned, ReadWeights read);

  FlatParameters with(Tensor gradients) const { return read_.with(gradients); }

  /// The master of `elements`, f32. @param elements  matrices or vectors, within what this rank updates
  Tensor master(Range elements) const;
  /// What is rounded from it; empty where the model reads the master.
  Tensor rounded(Range elements) const;
  /// What the model reads of `elements`, matrices or vectors.
  Tensor read(Range elements) const { return read_.at(elements); }

  /// The master as checkpoints hold it: "params".
  DeviceState state() const;
  /// What the model reads follows the master, as far as this rank holds that. @param rounding  its first
  /// element is the Layout's
  void round(const WeightRounding& rounding, Queue& queue);
  /// Whether what the model reads then still lacks other ranks' parts.
  bool is_divided() const { return divided_; }

  int64_t bytes() const { return read_.bytes() + master_->bytes(); }

private:
  bool is_rounded(Range elements) const;

  Layout layout_;
  Ops& ops_;
  ReadWeights read_;
  bool divided_;
  PackedParts packed_;   // of matrices that are rounded
  TensorBuffer master_;  // of these
};

/// Gives the master initialize_weights' values. Takes room for all of them on the host meanwhile.
void set_initial_weights(const Weights& weights, const Layout& layout, const GptConfig& config, uint64_t seed,
                         Queue& queue);

}  // namespace gpt
