#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "train/buckets.hpp"
#include "train/checkpoint.hpp"

#include <functional>
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

/// Readers that put blocks of the flat tensors into the shards that hold them. Keep references to `states`
/// and `queue`. @param tick  called for each block
std::vector<StateReader> state_readers(const std::vector<DeviceState>& states, Queue& queue,
                                       const std::function<void()>& tick);

/// Reads what the shards hold from a checkpoint, block by block: needs no room for a whole tensor. Checksums
/// of all blocks are verified. Not collective; errors as load_state. @param tick  called for each block
void load_device_state(
    const std::string& file, const Layout& layout, const std::vector<DeviceState>& states, Queue& queue,
    const std::function<void()>& tick = [] {});

/// What saving takes on a rank beside the state, in bytes.
struct SavedSize {
  int64_t states = 0;    ///< flat tensors
  bool gathers = false;  ///< any of them is shared out

  /// Of the host's memory. @param ranks, rank  that write one checkpoint together
  int64_t copied(const Layout& layout, int ranks, int rank) const;
  /// Of the device's.
  int64_t gathered(const Buckets& buckets) const;
};

/// Host copies of what this rank writes into a checkpoint: what save_checkpoint works on. Their memory, which
/// may take long to get, stays from one save to the next.
class SavedParts {
public:
  /// Keeps references to buckets, comm and device. @param states  what will be taken, by names and sizes
  /// @param mine  the elements of every flat tensor that this rank writes
  /// @throws Error if there is no memory for them
  SavedParts(const std::vector<DeviceState>& states, Range mine, const Buckets& buckets, Comm& comm,
             Device& device);

  /// Of a checkpoint that all ranks of `comm` write together.
  SavedParts(const std::vector<DeviceState>& states, const Layout& layout, const Buckets& buckets, Comm& comm,
             Device& device);

  /// Starts to copy what the state is after all that was given to `compute`: from the device, and bucket by
  /// bucket from the ranks that hold it. Collective; not before what was taken last is done with.
  void take(const std::vector<DeviceState>& states, Queue& compute);

  /// Work given to `compute` from now on, which may change the state, waits for the copies.
  void protect(Queue& compute) { compute.wait(*copied_); }

  /// The caller, on any thread, waits for the copies.
  void wait() { copied_->synchronize(); }

  const std::vector<StateTensor>& state() const { return state_; }

private:
  void gather(const DeviceState& state, Tensor saved, Queue& compute);

  const Range mine_;  // elements of every flat tensor
  const Buckets& buckets_;
  Comm& comm_;
  std::vector<TensorBuffer> memory_;
  TensorBuffer gathered_;  // a bucket; empty: nothing is shared out
  std::vector<StateTensor> state_;
  std::unique_ptr<Event> ready_, copied_;
  std::unique_ptr<Queue> copies_;  // last: its work uses the others
};

}  // namespace gpt
