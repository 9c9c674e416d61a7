#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast };
/// @throws Error(usage)
Collective collective_named(const std::string& name);
const char* name_of(Collective collective);

/// Bytes that every rank's link carries, over those of the message, if all links are used evenly: algorithm
/// bandwidth times this is the bus bandwidth of nccl-tests (its doc/PERFORMANCE.md).
double bus_factor(Collective collective, int ranks);

/// One implementation that is measured beside others.
class Contender {
public:
  virtual ~Contender() = default;

  virtual std::string name() const = 0;  ///< "hierarchical/ring/fp32,bf16"
  /// Memory that it sums fastest; null: any. Allocation is collective over the ranks of a node.
  virtual Allocator* allocator() { return nullptr; }

  /// Done when it returns. `out` is `in` but for an all-reduce out of place.
  virtual void run(Collective collective, Tensor out, Tensor in) = 0;

  /// Where results of a message of `count` elements stand afterwards.
  struct Piece {
    Range at;
    int64_t first = 0;  ///< its first element's index in the whole message
  };
  virtual std::vector<Piece> results(Collective collective, int64_t count) const = 0;
  /// What this rank gives away in an all-gather.
  virtual std::vector<Range> given(int64_t count) const = 0;
};

struct ContenderNames {
  std::vector<std::string> what, inter, wire;
};
struct ContenderPlan {
  std::string name;
  std::string what;   ///< mpi, flat, hierarchical, tree
  std::string inter;  ///< mpi, ring, halving, direct; empty where there is no such choice
  CommPlan plan;
};

/// What --what, --inter and --wire ask for, multiplied out in that order, each named by what is in effect
/// over so many nodes and once only: "mpi" is the library's own blocking call; only hierarchical ways differ
/// by --inter and --wire.
/// @throws Error(usage) for unknown names, and for what cannot be done with that type over so many nodes
std::vector<ContenderPlan> contender_plans(const ContenderNames& names, Collective collective, DType dtype,
                                           int64_t nodes);

/// Whether the ranks of each node see each other's `data`, which every rank has from that contender's
/// allocator; none where nodes have one rank each. Collective over the world.
std::optional<bool> is_seen_in_nodes(const World& world, Contender& contender, const Tensor& data);

/// Collective over the world.
std::unique_ptr<Contender> make_contender(const World& world, Device& device, const ContenderPlan& plan);

}  // namespace gpt
