#pragma once

#include "base/bfloat16.hpp"
#include "base/hash.hpp"
#include "comm/comm.hpp"
#include "comm/layouts.hpp"
#include "comm/world.hpp"
#include "device/buffer.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <bit>
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

struct NamedPlan {
  std::string name;
  CommPlan plan;
};

/// A plan, and where it is at work.
struct Way {
  CommPlan plan;
  int nodes = 1;
  int largest_node = 1;  ///< ranks

  bool is_flat() const { return plan.reduction == Reduction::flat; }
  /// Whether some sum of f32 travels as bf16.
  bool rounds() const {
    return !is_flat() && ((plan.wire_node == DType::bf16 && largest_node > 1) ||
                          (plan.wire_peers == DType::bf16 && nodes > 1));
  }
  /// Whether the MPI library forms sums of f32.
  bool is_by_library() const {
    return is_flat() || (plan.inter == Inter::library && plan.wire_peers == DType::f32 && nodes > 1);
  }
};

constexpr int64_t small_blocks = 4096;

/// Every way of summing that a layout of `nodes` nodes allows, with blocks so small that many are under way.
inline std::vector<NamedPlan> plans_for(int nodes) {
  std::vector<NamedPlan> plans = {
      {"blocks of the usual size", {}},
      {"ring", {.block_bytes = small_blocks}},
      {"messages inside", {.shared_memory = false, .block_bytes = small_blocks}},
      {"library, one block in many calls", {.inter = Inter::library, .chunk = 1000}},
      {"library, many blocks", {.inter = Inter::library, .block_bytes = small_blocks}},
      {"direct", {.inter = Inter::direct, .block_bytes = small_blocks}},
      {"bf16", {.wire_node = DType::bf16, .wire_peers = DType::bf16, .block_bytes = small_blocks}},
      {"bf16 inside, messages",
       {.wire_node = DType::bf16, .shared_memory = false, .block_bytes = small_blocks}},
      {"bf16 between", {.wire_peers = DType::bf16, .block_bytes = small_blocks}},
  };
  if (std::has_single_bit(static_cast<unsigned>(nodes)))
    plans.push_back({"halving", {.inter = Inter::halving, .block_bytes = small_blocks}});
  return plans;
}

/// Calls check on every implementation, on every layout that splits this job, on a queue that works at once
/// and on one with a thread of its own: results are there after synchronize().
inline void on_every_way(const std::function<void(Comm&, Queue&, const Way&)>& check) {
  const auto device = make_cpu_device(1);
  const auto inline_queue = device->make_queue(), threaded_queue = device->make_communication_queue();
  const auto on_both_queues = [&](Comm& comm, const Way& way) {
    for (Queue* const queue : {inline_queue.get(), threaded_queue.get()}) {
      INFO("queue with a thread: ", queue == threaded_queue.get());
      check(comm, *queue, way);
    }
  };
  const int ranks = make_world("")->size();
  for (const int64_t chunk : {default_chunk, int64_t{1000}}) {
    const auto flat = make_mpi_comm(MPI_COMM_WORLD, chunk);
    INFO(flat->name(), ", chunk ", chunk);
    on_both_queues(*flat, {.plan = {.reduction = Reduction::flat, .chunk = chunk}});
  }
  for (const std::string& layout : layouts_for(ranks)) {
    const auto world = make_world(layout);
    const std::vector<int> sizes = ranks_per_node(parse_node_layout(layout, ranks));
    for (const auto& [name, plan] : plans_for(world->nodes())) {
      const auto comm = make_hierarchical_comm(*world, plan);
      INFO(name, ": ", comm->name(), ", layout ", layout);
      on_both_queues(*comm, {.plan = plan, .nodes = world->nodes(), .largest_node = std::ranges::max(sizes)});
    }
  }
}

/// The same, where it does not matter how sums are formed.
inline void on_every_comm(const std::function<void(Comm&, Queue&)>& check) {
  on_every_way([&](Comm& comm, Queue& queue, const Way&) { check(comm, queue); });
}

constexpr double sentinel = -77;

inline double to_double(double number) { return number; }
inline double to_double(bfloat16 number) { return static_cast<float>(number); }

/// An array with sentinels on both sides, in the memory that a Comm prefers.
template <class T>
class Guarded {
public:
  Guarded(Comm& comm, int64_t count) : count_(count) {
    const int64_t bytes = (count + 2 * guard) * static_cast<int64_t>(sizeof(T));
    if (Allocator* const allocator = comm.allocator()) {
      shared_ = Buffer(*allocator, bytes);
      values_ = static_cast<T*>(shared_.data());
    } else {
      private_.resize(static_cast<size_t>(count + 2 * guard));
      values_ = private_.data();
    }
    for (int64_t i = -guard; i < count + guard; ++i) (*this)[i] = T(sentinel);
  }

  Tensor tensor() { return {values_ + guard, dtype_of<T>(), {count_}}; }
  T& operator[](int64_t i) { return values_[i + guard]; }
  double at(int64_t i) const { return to_double(values_[i + guard]); }
  int64_t size() const { return count_; }

  void fill(Range range, const std::function<double(int64_t)>& f) {
    for (int64_t i = range.begin; i < range.end; ++i) (*this)[i] = T(static_cast<float>(f(i)));
  }
  int64_t differences(Range range, const std::function<double(int64_t)>& f) const {
    int64_t wrong = 0;
    for (int64_t i = range.begin; i < range.end; ++i) wrong += at(i) != f(i);
    return wrong;
  }
  bool intact() const {
    for (int64_t i = 0; i < guard; ++i) {
      if (at(-1 - i) != sentinel || at(count_ + i) != sentinel) return false;
    }
    return true;
  }

private:
  static constexpr int64_t guard = 64;
  int64_t count_;
  Buffer shared_;
  std::vector<T> private_;
  T* values_ = nullptr;
};

/// Integers whose sums over 8 ranks are exact even in bf16.
inline double value(int rank, int64_t i) { return static_cast<double>((i * 7 + rank * 5) % 17 - 8); }

inline double sum(int ranks, int64_t i) {
  double total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, i);
  return total;
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
