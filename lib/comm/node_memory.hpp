#pragma once

#include "base/mpi.hpp"
#include "device/buffer.hpp"
#include "device/tensor.hpp"

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace gpt {

/// Memory that every rank of a node has mapped, so that each can read and write the others' copies. POSIX
/// shared memory rather than windows of MPI: room in it can be reserved before it is touched (too little is a
/// message then, not a bus error), pages lie near the rank that owns them, and its name is gone before it is
/// used, so that a killed job leaves nothing behind.
class NodeMemory : public Allocator {
public:
  /// Collective over `node`, as is each allocation: same sizes, same order. Where there is no room, all ranks
  /// of the node get memory of their own instead, and a notice says so, once a process.
  explicit NodeMemory(MPI_Comm node);
  ~NodeMemory() override;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  void* allocate(int64_t bytes) override;
  void release(void* data, int64_t bytes) override;

  /// Whether `data` lies in memory that the other ranks see.
  bool holds(const Tensor& data) const;

  /// What the rank of that index on the node has where this one has `data`.
  Tensor at(int member, const Tensor& data) const;

  int rank() const { return rank_; }
  int size() const { return size_; }

private:
  struct Segment {
    std::byte* base = nullptr;  // of all ranks' copies, `stride` bytes each; null: not shared
    std::byte* own = nullptr;
    int64_t stride = 0;
    int64_t bytes = 0;
  };

  bool map_together(Segment& segment);

  MPI_Comm node_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Segment> segments_;
};

/// Counters in node memory by which its ranks say how far they are.
class NodeProgress {
public:
  /// Collective over the node.
  explicit NodeProgress(NodeMemory& memory);

  /// Whether there is shared memory at all.
  bool works() const { return works_; }

  /// An operation begins: this rank's data may be read and written by the others. Its number.
  int64_t begin();
  /// Whether all ranks have begun it.
  bool all_began(int64_t operation) const;
  /// This rank reads and writes no data of others any more.
  void end(int64_t operation);
  bool all_ended(int64_t operation) const;

private:
  struct alignas(64) Counters {
    std::atomic<int64_t> begun{0};
    std::atomic<int64_t> ended{0};
  };
  static_assert(std::atomic<int64_t>::is_always_lock_free);  // or it would not work between processes

  Counters& of(int member) const { return *counters_[static_cast<size_t>(member)]; }

  Buffer buffer_;
  bool works_ = false;
  std::vector<Counters*> counters_;
  int rank_;
  int64_t operation_ = 0;
};

}  // namespace gpt
