#pragma once

#include "device/queue.hpp"
#include "train/weights.hpp"

namespace gpt {

/// Injects what a fault of memory does: one bit of the first weight on this rank is another one from now on,
/// in the copy that ReplicaCheck compares. The host waits for `queue`.
void flip_weight_bit(const Weights& weights, Queue& queue);

}  // namespace gpt
