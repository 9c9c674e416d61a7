#pragma once

#include "base/mpi.hpp"
#include "device/host_sum.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace gpt {

class Exchange;
struct CostTerms;
struct Link;

/// How the ranks of a lane sum between their nodes (docs/reduction.md).
enum class Inter { library, ring, halving, direct };

/// All that distinguishes one of them: who adds another adds a row to the table.
struct InterWay {
  Inter inter;
  std::string_view name;   ///< in options and files: "mpi"
  std::string_view title;  ///< in logs: "MPI"
  int64_t under_way;       ///< blocks under way at a time, at most
  int64_t block_bytes;     ///< what blocks should have; 0: small ones do

  /// Whether so many nodes can sum so; else `needs` says what it takes.
  bool (*fits)(int64_t nodes);
  std::string_view needs;

  /// Between the members of `peers`, whose calls of the library take up to `chunk` elements. Owners that add
  /// whole summands do so in `order`; the others have an order of their own. Collective over `peers`.
  std::unique_ptr<Exchange> (*make)(MPI_Comm peers, int64_t chunk, SumOrder order);

  /// What an all-reduce of `bytes` costs a node whose link is `link`.
  CostTerms (*cost)(int64_t nodes, double bytes, const Link& link);
};

std::span<const InterWay> inter_ways();
const InterWay& way_of(Inter inter);

/// The names, in the order in which messages list them.
std::vector<std::string_view> inter_names();

/// @throws Error(usage) for any other name
Inter inter_named(std::string_view name);

/// @throws Error(usage) unless so many nodes can sum so
void validate_fits(Inter inter, int64_t nodes);

}  // namespace gpt
