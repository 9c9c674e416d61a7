#pragma once

#include "comm/world.hpp"
#include "support/scratch_folder.hpp"

#include <optional>
#include <string>

namespace gpt::test {

/// A scratch folder that all ranks see; the root's goes last.
struct SharedFolder {
  explicit SharedFolder(const World& all) : world(all) {
    if (world.is_root()) scratch.emplace();
    path = world.broadcast(scratch ? scratch->path() : std::string());
  }
  ~SharedFolder() { world.barrier(); }
  const World& world;
  std::optional<ScratchFolder> scratch;
  std::string path;
};

}  // namespace gpt::test
