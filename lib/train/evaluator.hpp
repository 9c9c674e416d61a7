#pragma once

#include "comm/comm.hpp"
#include "data/dataset.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"

#include <cstdint>

namespace gpt {

/// @throws Error(usage) if the validation part has no window of that context, with the tokens needed and
/// present
void validate_evaluation(const Dataset& dataset, int64_t context);

/// Mean loss over a fixed set of validation windows, spread over the ranks: the same windows and, to
/// rounding, the same figure at every rank count.
class Evaluator {
public:
  /// @param windows  how many, evenly spaced over the split in storage order; 0: all
  /// @throws Error(usage) if the split has no window of that context; opens the shards that this rank reads
  Evaluator(Dataset& dataset, int64_t context, int64_t windows, int64_t micro_batch, Device& device, int rank,
            int ranks);

  int64_t windows() const { return windows_; }
  int64_t micro_batch() const { return micro_batch_; }  ///< sequences at a time that a model needs room for

  /// Collective. Nats per token. @throws SharedError(bad_numbers) where that is not a finite number
  double mean_loss(Gpt& model, SectionListener& listener, Comm& comm, Queue& queue, Watchdog& watchdog) const;

private:
  /// Where in the split, in storage order, the evaluation's `window`-th is.
  int64_t stored_index(int64_t window) const;

  const Dataset& dataset_;
  int64_t context_;
  int64_t windows_per_shard_;
  int64_t all_windows_;
  int64_t windows_;
  Range mine_;
  int64_t micro_batch_;
  TensorBuffer inputs_, targets_;  // (micro_batch, T) i32
  TensorBuffer loss_sum_;          // f64 (1)
};

}  // namespace gpt
