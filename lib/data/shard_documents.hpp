#pragma once

#include "data/manifest.hpp"
#include "h5/h5.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace gpt {

/// Where documents begin in a shard. A document that a cut between shards divides has a beginning in each of
/// them.
class ShardDocuments {
public:
  /// @throws Error(damaged) naming file and reason
  ShardDocuments(const std::string& folder, const ShardInfo& info);

  /// The last document goes on in the next shard.
  bool last_open() const { return last_open_; }

  /// Calls `visit` with the tokens of each document, in order. @throws Error(damaged) naming the entry if the
  /// list is not 0 and then increasing within the shard
  void for_each(const std::function<void(Range)>& visit) const;

private:
  H5File file_;
  H5Dataset starts_;
  int64_t tokens_;
  bool last_open_;
};

}  // namespace gpt
