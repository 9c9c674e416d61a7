#pragma once

#include "comm/inter.hpp"
#include "device/dtype.hpp"

#include <cstdint>
#include <string_view>

namespace gpt {

enum class Reduction { flat, hierarchical, tree };
enum class Sharding { world, node };

/// flat, hierarchical, tree. @throws Error(usage) for any other name
Reduction reduction_named(std::string_view name);

/// What f32 sums travel as.
struct Wire {
  DType node = DType::f32;   ///< inside a node
  DType peers = DType::f32;  ///< and between nodes
};

/// "fp32", "bf16", or two of them as in "fp32,bf16". @throws Error(usage)
Wire wire_named(std::string_view name);

/// Elements that travel in one call of the MPI library at most: it counts in int, and some transports count
/// bytes so too.
constexpr int64_t default_chunk = int64_t{1} << 26;

/// How sums are formed. The bits of a sum are a function of this, the ranks and their layout.
struct CommPlan {
  Reduction reduction = Reduction::hierarchical;
  Inter inter = Inter::ring;            ///< hierarchical: between nodes; see inter_of_sums
  DType wire_node = DType::f32;         ///< what f32 sums travel as inside a node: f32 or bf16
  DType wire_peers = DType::f32;        ///< and between nodes
  Sharding sharding = Sharding::world;  ///< whether owned() divides over all ranks or inside the node only
  bool shared_memory = true;            ///< hierarchical: ranks of a node share memory where there is room
  int64_t block_bytes = 0;        ///< of a lane that goes through the hops at a time; 0: blocks_over chooses
  int64_t window = 16;            ///< blocks under way at a time
  int64_t chunk = default_chunk;  ///< elements

  static constexpr int64_t largest_block = int64_t{1} << 30;
  static constexpr int64_t largest_window = 1024;

  /// Whether f32 sums are rounded to bf16 on a hop.
  bool rounds() const { return wire_node == DType::bf16 || wire_peers == DType::bf16; }

  /// What sums of a type take between nodes: `inter`, but Inter::direct for what travels as bf16, so that it
  /// is rounded once, by its owner. Copies always take `inter`.
  Inter inter_of_sums(DType dtype) const;

  struct Blocks {
    int64_t bytes = 0;
    int64_t under_way = 1;
  };

  /// Blocks of what takes `inter` between so many nodes: messages of 32 KiB between them if they suit it, a
  /// megabyte where there are none (docs/performance.md).
  Blocks blocks_over(Inter inter, int64_t nodes) const;
};

/// @throws Error(usage) if blocks or window have no size that MPI and tags can count
void validate_plan(const CommPlan& plan);

}  // namespace gpt
