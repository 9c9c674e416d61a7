#pragma once

#include "base/integers.hpp"
#include "comm/world.hpp"
#include "device/tensor.hpp"
#include "model/config.hpp"
#include "model/layout.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// Everything in a checkpoint but the flat state.
struct CheckpointHeader {
  static constexpr int64_t format = 3;

  int64_t step = 0;         ///< steps done
  int64_t last_update = 0;  ///< of them the last that the optimizer took: its draws have rounded the weights
  int64_t cursor = 0;       ///< windows consumed per lane
  std::vector<Range> skipped;  ///< windows of each lane passed over, which the cursor does not count (Lanes)
  uint64_t run_id = 0;
  int64_t branch = 0;        ///< grows when a run resumes from a file that is not its newest
  int64_t parent_step = -1;  ///< step this branch began from; -1: from nothing
  GptConfig model;
  std::string configuration;  ///< the run's options as an ini text
  std::string tokenizer;      ///< Tokenizer::serialize()
  uint64_t dataset_fingerprint = 0;
  std::string dataset_source;  ///< for people
  std::string spikes;          ///< what the spike detector remembers (SpikeDetector::state)
  std::string comm_choice;     ///< how sums are formed (CommChoice as text); empty in files of older programs
};

/// Elements on the host of a flat buffer that goes into `/state/NAME` (f32, Layout::size() elements).
struct StateTensor {
  std::string name;  ///< "params", "m", "v", …
  Tensor data;
  int64_t first = 0;  ///< the first one of `data` in the flat buffer
};

/// The elements of every flat buffer that one of `ranks` ranks writes.
Range checkpoint_part(const Layout& layout, int ranks, int rank);

/// "step-00000020.h5"
std::string checkpoint_name(int64_t step);

/// Writes all ranks' state as one file (docs/checkpoint-format.md) under `folder`: partial name, parallel
/// slabs, fsync, commit record, rename, fsync of the folder. A file with the final name is whole; an existing
/// one gets a second name and keeps its own until the new file takes it. Partial files of earlier saves are
/// removed: the caller's job has the folder to itself, and no other save open there. Collective; every
/// rank's tensors hold its checkpoint_part at least, and it writes that.
/// @param confirm  called by the root before the commit; throws Error if it must not be
/// @throws SharedError(saving_failed) on all ranks, the partial file removed, when any rank could not write
/// @throws Error(saving_failed) on the ranks that failed inside a collective call of HDF5 (opening, closing):
///         others may wait in it for ever, so the job must end (World::fail)
void save_checkpoint(
    const std::string& folder, const CheckpointHeader& header, const Layout& layout,
    const std::vector<StateTensor>& state, const World& world, const std::function<void()>& confirm = [] {});

/// Reads back what save_checkpoint wrote, from the disk as far as the system lets go of its copy in memory,
/// and compares it with its checksums: every rank what it wrote itself, rank 0 also the rest of the file.
/// Collective. @param names  of the state @throws SharedError(damaged) naming what is not as it was written
void verify_saved(const std::string& file, const Layout& layout, const std::vector<std::string>& names,
                  const World& world);

/// What is wrong with a file, in one sentence; nothing when its commit record is valid and covers it. Cheap:
/// one small read.
std::optional<std::string> checkpoint_fault(const std::string& file);

/// @throws Error(damaged) naming the file and what is wrong
CheckpointHeader read_checkpoint_header(const std::string& file);

/// Who takes a flat tensor, in blocks whose checksum was verified: elements [range), in memory that is used
/// again after the call.
struct StateReader {
  std::string name;
  std::function<void(Range elements, Tensor block)> take;
};

/// Reads the named flat tensors from beginning to end. Not collective.
/// @throws Error(damaged) naming file, tensor and block; Error(usage) if a tensor is not in the file
void read_state(const std::string& file, const Layout& layout, const std::vector<StateReader>& readers);

/// Reads the named flat tensors, whole, into host memory and verifies every block's checksum. Not collective.
/// @throws Error(damaged) naming file, tensor and block; Error(usage) if a tensor is not in the file
void load_state(const std::string& file, const Layout& layout, const std::vector<StateTensor>& state);

/// A checkpoint of a run's folder.
struct CheckpointFile {
  std::string path;
  int64_t step = 0;
  int64_t branch = 0;
  uint64_t run_id = 0;
};

/// What `folder` holds: valid files newest first (branch, then step), and for every other file one sentence.
/// Of the first valid file all bytes outside the state were verified, those before it did not pass; of the
/// others only the commit record was read. A damaged block of the state is found when it is loaded.
struct CheckpointList {
  std::vector<CheckpointFile> valid;
  std::vector<std::string> passed_over;
  bool broken = false;  ///< a file that once was whole, by its name, is among those passed over
};
CheckpointList list_checkpoints(const std::string& folder);

/// Which checkpoints of a branch stay.
struct Retention {
  int64_t newest = 1;  ///< so many of the newest, at least 1
  int64_t every = 0;   ///< and all whose step is a multiple of it; 0: no others
};

/// Deletes checkpoints of this run's branch whose commit record is valid, but for those that `retention`
/// names. What another branch reached stays. Call it after a newer one was verified, or at least committed.
void retire_checkpoints(const std::string& folder, uint64_t run_id, int64_t branch,
                        const Retention& retention);

}  // namespace gpt
