#pragma once

#include "data/progress.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Something in a checkpoint that is not as it was committed.
struct CheckpointDamage {
  std::string what;                     ///< a sentence that names the file
  std::string state;                    ///< the flat tensor of a damaged block; empty: it is something else
  int64_t block = -1;                   ///< its number
  std::vector<std::string> parameters;  ///< those that have elements in the block
};

struct CheckpointExamination {
  int64_t step = -1;                     ///< -1: not known, since the file is no checkpoint as a whole
  int64_t bytes = 0;                     ///< of the file
  int64_t blocks = 0;                    ///< of the state, read and compared with their checksums
  std::vector<CheckpointDamage> damage;  ///< empty: every bit is as it was committed
};

/// Reads all of a checkpoint, one block at a time: commit record, digest of everything outside the state,
/// attributes, and every block of the state. A damaged block does not end it. Damage outside the state does,
/// since the checksums of blocks are among those bytes, and HDF5 may crash on what it did not write.
CheckpointExamination examine_checkpoint(const std::string& file, const Progress& progress = no_progress);

}  // namespace gpt
