#pragma once

#include "h5/h5.hpp"
#include "train/checkpoint.hpp"
#include "train/commit_record.hpp"

#include <cstdint>
#include <iterator>
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

/// Names of what a folder holds, in order. A folder that is not there holds nothing.
/// @throws Error(usage) naming the folder and the reason if it cannot be listed
std::vector<std::string> list_names(const std::string& folder);

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

/// What the file says of itself. @throws Error(damaged) naming the file and what is wrong with it, also if
/// its attributes and its commit record tell of different checkpoints
CheckpointHeader header_of(const OpenCheckpoint& checkpoint);

/// Names of the flat tensors, in alphabetical order. @throws Error(damaged)
std::vector<std::string> state_names(const OpenCheckpoint& checkpoint);

/// The blocks of one flat tensor, of which memory holds one at a time.
class StateBlocks {
public:
  struct Block {
    Range elements;
    Tensor data;           ///< (elements.size()), f32, in memory that the next read uses again
    uint64_t found = 0;    ///< checksum of `data`
    uint64_t written = 0;  ///< the one in the file

    bool is_whole() const { return found == written; }
  };

  /// @throws Error(damaged) unless the file holds a tensor of `elements` of that name and a checksum for each
  /// block, where the commit record says
  StateBlocks(const OpenCheckpoint& checkpoint, const std::string& name, int64_t elements);

  const std::string& where() const { return values_.where(); }  ///< "FILE:state/NAME"
  int64_t count() const { return std::ssize(checksums_); }
  int64_t first_byte() const { return values_.file_offset(); }  ///< of the tensor in the file

  /// Whatever its checksum. @throws Error(damaged) if the file does not let it be read
  Block read(int64_t number);
  /// @throws Error(damaged) naming file, tensor and block also if the checksum is not the one in the file
  Block read_whole(int64_t number);

private:
  H5Dataset values_;
  std::vector<uint64_t> checksums_;
  std::vector<float> memory_;
  int64_t elements_;
};

/// Reads blocks of a flat tensor of `elements`, in order, and verifies their checksums.
/// @throws Error(damaged) naming file, tensor and block
void read_blocks(const OpenCheckpoint& checkpoint, const StateReader& reader, int64_t elements, Range blocks);

}  // namespace gpt
