#pragma once

#include "base/contracts.hpp"
#include "base/mpi.hpp"
#include "device/buffer.hpp"
#include "device/tensor.hpp"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// Which part of a rank's memory an operation works on; in shared memory the same on all ranks of a node.
struct ArrayPlace {
  int64_t allocation = -1;  ///< counted from 0; −1: memory of the rank's own
  int64_t offset = 0;       ///< in it
  int64_t bytes = 0;

  bool operator==(const ArrayPlace&) const = default;
};

/// An array in shared memory, of which each rank of the node has a copy.
class SharedArray {
public:
  SharedArray(std::byte* first, int64_t stride, int own, const ArrayPlace& place)
      : first_(first), stride_(stride), own_(own), place_(place) {}

  /// What the rank of that index on the node has where this one has `range`, which is a part of the array.
  Tensor at(int member, const Tensor& range) const {
    auto* const begin = static_cast<std::byte*>(range.raw()) + stride_ * (member - own_);
    expects(begin >= first_ + stride_ * member &&
            begin + range.bytes() <= first_ + stride_ * member + place_.bytes);
    return {begin, range.dtype(), {range.size()}};
  }

  const ArrayPlace& place() const { return place_; }

private:
  std::byte* first_;  // the copy of the rank with index 0
  int64_t stride_;    // from one rank's copy to the next one's
  int own_;
  ArrayPlace place_;
};

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

  /// The ranks' copies of `data`, if it lies in memory that they all see. May be called while another thread
  /// allocates or releases other memory.
  std::optional<SharedArray> find(const Tensor& data) const;

  /// Whether all that is allocated now found room in shared memory.
  bool shares_all() const;

  int rank() const { return rank_; }
  int size() const { return size_; }

private:
  struct Segment {
    std::byte* base = nullptr;  // of all ranks' copies, `stride` bytes each; null: not shared
    std::byte* own = nullptr;
    int64_t stride = 0;
    int64_t bytes = 0;
    int64_t number = 0;
  };

  bool map_together(Segment& segment);
  Segment taken_out(const std::byte* own);

  MPI_Comm node_;
  int rank_ = 0;
  int size_ = 1;
  int64_t allocations_ = 0;
  mutable std::mutex mutex_;  // of segments_
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
  int64_t begin(const ArrayPlace& place);
  /// Whether all ranks have begun it.
  bool all_began(int64_t operation) const;
  /// Of the operation that all have begun. @throws Error unless all did on the same place
  void check_places() const;
  /// This rank reads and writes no data of others any more.
  void end(int64_t operation);
  bool all_ended(int64_t operation) const;

private:
  struct alignas(64) Counters {
    std::atomic<int64_t> begun{0};
    std::atomic<int64_t> ended{0};
    ArrayPlace place;  // written before `begun`, and not again before all have ended
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
