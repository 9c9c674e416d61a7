#pragma once

#include "h5/h5.hpp"
#include "train/checkpoint.hpp"
#include "train/commit_record.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Bytes that one checksum covers. Large datasets are aligned to it, so that a block has one writer.
constexpr int64_t checkpoint_block = int64_t{4} << 20;

constexpr int64_t checkpoint_blocks(int64_t elements) {
  return ceil_div(elements * static_cast<int64_t>(sizeof(float)), checkpoint_block);
}

/// The elements of block range [blocks) in a flat tensor of `elements`.
Range elements_of_blocks(Range blocks, int64_t elements);

std::string state_path(const std::string& name);     ///< "state/params"
std::string checksum_path(const std::string& name);  ///< "checksums/params"

/// Where a state tensor's bytes lie.
Range extent_of(const H5Dataset& dataset);

/// All datasets and attributes of a checkpoint, those of the state still without contents.
void write_structure(H5File& file, const CheckpointHeader& header, const Layout& layout,
                     const std::vector<StateTensor>& state);

/// @throws Error(damaged) naming the file and what is wrong with it
CheckpointHeader parse_header(const H5File& file);

/// A committed file all of whose bytes outside the state are as they were written.
struct OpenCheckpoint {
  CommitRecord record;
  H5File file;
};
/// @throws Error(damaged) naming the file and what is wrong
OpenCheckpoint open_checkpoint(const std::string& path);
/// As open_checkpoint, by the commit record alone: of a file that this job has just written.
OpenCheckpoint open_committed(const std::string& path);

/// Reads blocks of a flat tensor of `elements`, in order, and verifies their checksums.
/// @throws Error(damaged) naming file, tensor and block
void read_blocks(const OpenCheckpoint& checkpoint, const StateReader& reader, int64_t elements, Range blocks);

}  // namespace gpt
