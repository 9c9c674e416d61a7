#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "train/buckets.hpp"
#include "train/checkpoint.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// Elements of a flat buffer that this rank holds, on the device.
struct StateShard {
  Range elements;
  Tensor data;  ///< f32, as many
};

/// A flat tensor of training state by the name under which checkpoints hold it.
struct DeviceState {
  std::string name;
  std::vector<StateShard> shards;  ///< ascending; together all elements, unless shared out
  /// Whether ranks hold parts of it, and saving has to gather. The same on all ranks, also on those that hold
  /// everything or nothing.
  bool shared_out = false;
};

/// The whole of `data` under a name.
DeviceState whole_state(std::string name, Tensor data);

/// Reads what the shards hold from a checkpoint, block by block: needs no room for a whole tensor. Checksums
/// of all blocks are verified. Not collective; errors as load_state.
void load_device_state(const std::string& file, const Layout& layout, const std::vector<DeviceState>& states,
                       Queue& queue);

/// What saving takes on a rank beside the state.
struct SavedSize {
  int64_t states = 0;    ///< flat tensors
  bool gathers = false;  ///< any of them is shared out

  int64_t bytes(const Layout& layout, const Buckets& buckets, int ranks, int rank) const;
};

/// Host copies of what this rank writes into a checkpoint: what save_checkpoint works on.
class SavedParts {
public:
  /// Copies from the device, and from the ranks that hold it, bucket by bucket; returns when that is done.
  /// Collective.
  SavedParts(const std::vector<DeviceState>& states, const Layout& layout, const Buckets& buckets, Comm& comm,
             Device& device, Queue& queue);

  const std::vector<StateTensor>& state() const { return state_; }

private:
  std::vector<std::unique_ptr<float[]>> memory_;
  std::vector<StateTensor> state_;
};

}  // namespace gpt
