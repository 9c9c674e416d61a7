#include "train/preflight_dataset.hpp"

#include "data/shard.hpp"

#include <cstdint>
#include <exception>
#include <iterator>
#include <utility>

namespace gpt {

DatasetLook look_at_dataset(const std::string& folder, int rank, int ranks) {
  DatasetLook look;
  try {
    Dataset dataset(folder);
    const Manifest& manifest = dataset.manifest();
    // One at a time: all of them together may be more files than a process may have open.
    for (const Split split : {Split::train, Split::val}) {
      const std::vector<ShardInfo>& shards = manifest.shards(split);
      for (int64_t shard = rank; shard < std::ssize(shards); shard += ranks)
        Shard::open(folder, shards[static_cast<size_t>(shard)], manifest);
    }
    look.dataset.emplace(std::move(dataset));
  } catch (const std::exception& error) {
    look.problem = error.what();
  }
  return look;
}

}  // namespace gpt
