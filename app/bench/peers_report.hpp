#pragma once

#include "bench/peer_work.hpp"
#include "bench/times.hpp"

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpt {

/// What programs took for the same work.
struct PeerRow {
  PeerWork work;
  int64_t steps = 1;  ///< a round
  Times own;
  std::map<std::string, Times> peers;         ///< by the kind of the peer; without those that failed
  std::map<std::string, std::string> called;  ///< what they call themselves

  /// The kind of the fastest peer; empty if none was measured.
  std::string best() const;
  /// How many times longer the fastest peer's least step takes. There must be one.
  double ratio() const;
};

/// @param kinds  of peers, in the order of the columns: "eager", "compiled", "jax"
void print_peers_head(const std::vector<std::string>& kinds);
void print_peers_row(const std::vector<std::string>& kinds, const PeerRow& row);

/// docs/benchmarks.md lists the keys.
nlohmann::json peer_row_json(const PeerRow& row);

}  // namespace gpt
