#pragma once

#include "comm/world.hpp"
#include "train/checkpoint.hpp"
#include "train/device_state.hpp"
#include "train/ledger.hpp"
#include "train/node_saver.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

struct SaveSettings {
  std::string folder;                   ///< of the checkpoints
  int64_t keep = 1;                     ///< newest ones of a branch that stay
  int64_t keep_every = 0;               ///< and all whose step is a multiple of it; 0: no others
  bool verify = true;                   ///< read each one back before older ones go
  std::shared_ptr<Ledger> ledger = {};  ///< flushed before each is written; null: there is none
};

/// Where a save goes: into the memory of every node first, where to both.
struct SavePlaces {
  bool disk = true;
  bool memory = false;
};

/// How a save ended. All but `memory` is of the one on disk.
struct SaveEnd {
  int64_t step = 0;
  SavePlaces places;
  NodeSaveEnd memory;  ///< in the memory of this rank's node
  std::string file;
  std::string failure;  ///< why there is no file, in a sentence; empty: there is one. The same on all ranks
  std::optional<int> rank;  ///< that failed, where it was one
  std::string notice;       ///< rank 0: what went wrong afterwards; empty: nothing
  double seconds = 0.0;     ///< until the file was there, from when the state had been copied
  double verifying = 0.0;   ///< seconds in which it was then read back
};

/// Saves checkpoints on a thread of its own, while training goes on: one at a time, into the folder of the
/// run or the memory of the nodes.
///
///     begin(header, states, queue);   // the state is being copied
///     protect(queue);                 // before each change of the state
///     …
///     if (under_way()) end = wait();
///
/// An error that ranks cannot share ends the job from that thread. HDF5 serves one thread at a time: while a
/// save is under way no other thread may call it.
class Saver {
public:
  /// Starts the thread. @param world  of the main thread @param beside  its duplicate, for the thread
  /// @param memory  of this node; null: nothing will be saved there
  /// @throws Error if there is no memory for copies of the state, or no thread
  Saver(const World& world, std::unique_ptr<World> beside, SaveSettings settings, const Layout& layout,
        SavedParts parts, std::unique_ptr<NodeSaver> memory = nullptr);

  /// Waits for the save under way. While an exception passes and there are other ranks, it is left to itself,
  /// with all that it uses, since the job is about to end: who wants it finished then calls wait() before.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Collective; nothing is under way. Returns when copies of the state were given to the device's queues.
  /// @param confirm  of a save on disk: called by the root's saving thread before the file gets its name, and
  ///                 before older ones go: throws Error where the folder is not this job's any more
  void begin(
      const CheckpointHeader& header, const std::vector<DeviceState>& states, Queue& compute,
      SavePlaces places = {}, std::function<void()> confirm = [] {});

  /// Work given to `compute` from now on, which may change the state, waits for the copies.
  void protect(Queue& compute);

  /// From begin to wait.
  bool under_way() const;
  /// Of the save under way.
  int64_t step() const;
  /// wait() would return at once on this rank.
  bool has_ended() const;

  /// How the save under way ended. The main thread's watchdog hears the signs of life of the saving one.
  /// Collective, in so far as ranks end together.
  SaveEnd wait();

private:
  struct Shared;  // with the thread
  std::unique_ptr<Shared> shared_;
};

}  // namespace gpt
