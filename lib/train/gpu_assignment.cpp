#include "train/gpu_assignment.hpp"

namespace gpt {

GpuAssignment::GpuAssignment(const std::vector<std::vector<std::string>>& uuids_by_rank)
    : uuids_by_rank_(uuids_by_rank) {}

bool GpuAssignment::give(int rank) {
  std::set<std::string> tried;
  return give_without(rank, tried);
}

/// @param tried  GPUs whose owners are moving already, or cannot
bool GpuAssignment::give_without(int rank, std::set<std::string>& tried) {
  const std::vector<std::string>& seen = uuids_by_rank_[static_cast<size_t>(rank)];
  for (const std::string& uuid : seen)
    if (owners_.try_emplace(uuid, rank).second) return true;
  for (const std::string& uuid : seen) {
    const int owner = owners_.at(uuid);
    if (!tried.insert(uuid).second || !give_without(owner, tried)) continue;
    owners_[uuid] = rank;
    return true;
  }
  return false;
}

std::optional<int> GpuAssignment::index_of(int rank) const {
  const std::vector<std::string>& seen = uuids_by_rank_[static_cast<size_t>(rank)];
  for (size_t index = 0; index < seen.size(); ++index)
    if (const auto owner = owners_.find(seen[index]); owner != owners_.end() && owner->second == rank)
      return static_cast<int>(index);
  return std::nullopt;
}

}  // namespace gpt
