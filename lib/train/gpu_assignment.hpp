#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gpt {

/// Gives ranks GPUs of their own, each one that it sees: a matching by augmenting paths (Kuhn 1955), so that
/// ranks find one whenever there is a way for all of them. Who finds a free one takes the first and moves
/// nobody.
class GpuAssignment {
public:
  /// @param uuids_by_rank  that each rank sees, in its order; outlives this
  explicit GpuAssignment(const std::vector<std::vector<std::string>>& uuids_by_rank);

  /// Gives a GPU to a rank that has none; ranks that have one may get another.
  /// @return false, with nothing changed, if however they are given out one of these ranks is left without
  bool give(int rank);

  /// Index of its GPU among those that the rank sees.
  std::optional<int> index_of(int rank) const;

  /// Of a GPU that was given.
  int owner_of(const std::string& uuid) const { return owners_.at(uuid); }

private:
  bool give_without(int rank, std::set<std::string>& tried);

  const std::vector<std::vector<std::string>>& uuids_by_rank_;
  std::map<std::string, int> owners_;
};

}  // namespace gpt
