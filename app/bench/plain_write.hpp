#pragma once

#include "comm/world.hpp"
#include "train/checkpoint.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Writes this rank's elements of flat tensors of `elements` into one file, a tensor after the other, each
/// rank by itself at their places, and brings them to the disk: what a file system gives at best to ranks
/// that write one file. The file is there before. Collective.
/// @throws Error(failed) naming the file and the reason
void write_plainly(const World& world, const std::string& file, const std::vector<StateTensor>& state,
                   Range part, int64_t elements);

}  // namespace gpt
