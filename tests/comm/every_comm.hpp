#pragma once

#include "base/hash.hpp"
#include "comm/comm.hpp"
#include "comm/comm_backend.hpp"
#include "comm/guarded.hpp"
#include "comm/layouts.hpp"
#include "comm/world.hpp"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpt::test {

inline std::unique_ptr<World> make_world(const std::string& layout) {
  int argc = 0;
  char** argv = nullptr;
  auto world = std::make_unique<World>(argc, argv);
  world->set_layout({layout});
  return world;
}

/// A plan, and where it is at work.
struct Way {
  CommPlan plan;
  int nodes = 1;
  int largest_node = 1;     ///< ranks
  bool heeds_inter = true;  ///< CommSession::heeds_inter

  bool is_flat() const { return plan.reduction == Reduction::flat; }
  /// Whether some sum of f32 travels as bf16.
  bool rounds() const {
    return !is_flat() && ((plan.wire_node == DType::bf16 && largest_node > 1) ||
                          (plan.wire_peers == DType::bf16 && nodes > 1));
  }
  /// Whether a library forms sums of f32.
  bool is_by_library() const {
    return !heeds_inter || is_flat() ||
           (plan.inter == Inter::library && plan.wire_peers == DType::f32 && nodes > 1);
  }
};

/// Calls check on every implementation, on every layout that splits this job, on a queue for computing and on
/// one for communication: results are there after synchronize().
inline void on_every_way(const std::function<void(Comm&, Queue&, const Way&)>& check) {
  const auto compute = device().make_queue(), communication = device().make_communication_queue();
  const int ranks = make_world("")->size();
  bool flat_was_tried = false;
  for (const std::string& layout : layouts_for(ranks)) {
    const auto world = make_world(layout);
    const auto session = make_session(*world);
    const std::vector<int> sizes = ranks_per_node(parse_node_layout(layout, ranks));
    for (const auto& [name, plan] : plans_for(world->nodes())) {
      const Way way{.plan = plan,
                    .nodes = world->nodes(),
                    .largest_node = std::ranges::max(sizes),
                    .heeds_inter = session->heeds_inter()};
      if (way.is_flat() && flat_was_tried) continue;  // it is the same in every layout
      const auto comm = session->make(plan);
      for (Queue* const queue : {compute.get(), communication.get()}) {
        INFO(name, ": ", comm->name(), ", layout ", layout, ", queue for communication ",
             queue == communication.get());
        check(*comm, *queue, way);
      }
    }
    flat_was_tried = true;
  }
}

/// The same, where it does not matter how sums are formed.
inline void on_every_comm(const std::function<void(Comm&, Queue&)>& check) {
  on_every_way([&](Comm& comm, Queue& queue, const Way&) { check(comm, queue); });
}

/// Whether `bytes` are the same on all ranks.
inline bool same_everywhere(const void* data, size_t bytes) {
  const uint64_t digest = hash_bytes(data, bytes);
  uint64_t lowest = 0, highest = 0;
  MPI_Allreduce(&digest, &lowest, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&digest, &highest, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return lowest == highest;
}

}  // namespace gpt::test
