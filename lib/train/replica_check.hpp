#pragma once

#include "comm/world.hpp"
#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/weights.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// Which of several ranks hold something else than the others.
struct Deviation {
  size_t index = 0;           ///< of the first hash in which they do
  int64_t hashes = 0;         ///< in how many of them
  std::vector<int> ranks;     ///< that hold another value there than most; where no value has most, all
  std::vector<int> agreeing;  ///< that hold the value that most hold; empty: no value has most
};

/// @param of_rank  hashes of the same things, in one order, of each rank. Nothing: all are alike
std::optional<Deviation> find_deviation(const std::vector<std::vector<uint64_t>>& of_rank);

/// Weights that differ between ranks.
struct ReplicaDifference {
  std::string parameter;   ///< the first one
  std::vector<int> ranks;  ///< that are to blame for it, as far as that can be told: Deviation::ranks
  std::string text;        ///< a sentence
};

/// Compares weights that every rank holds a copy of, bit by bit, by XXH3-64 of each parameter: what the model
/// reads, and the master where every rank has all of it. With ZeRO what is read has come from its owner:
/// there a copy that went wrong is found, a number that its owner has spread is the same everywhere.
///
/// Hashes are formed on the host, where 4 MiB at a time are copied to: 13 GB/s on a core, and little beside
/// what a GPU's copies take.
class ReplicaCheck {
public:
  /// Keeps references to world, layout and weights. @throws Error if there is no memory
  ReplicaCheck(const World& world, const Layout& layout, Device& device, const Weights& weights);

  /// Waits for what was given to `queue`, behind which all weights must be there. Collective.
  std::optional<ReplicaDifference> compare(Queue& queue);

private:
  struct Copy {
    std::string name;
    Tensor weights;  // of one parameter, flat
  };

  uint64_t hash_of(const Tensor& weights, Queue& queue);
  ReplicaDifference describe(const Deviation& deviation) const;

  const World& world_;
  std::vector<Copy> copies_;
  TensorBuffer piece_;  // on the host
};

}  // namespace gpt
