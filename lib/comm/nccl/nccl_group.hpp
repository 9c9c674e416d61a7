#pragma once

#include "comm/nccl/nccl_calls.hpp"
#include "device/queue.hpp"
#include "device/tensor.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <nccl.h>

namespace gpt {

/// Ranks that NCCL connects, with this one among them. What it does is put on a queue's stream; the host
/// waits for nothing but that NCCL takes it. Tensors lie in the GPU's memory; empty ones are left out. Where
/// each rank has a piece of `data`, rank i's is the i-th, and all have one size.
class NcclGroup {
public:
  /// All ranks of a session, or a part of them.
  /// @param comm  of `calls`, which ends it
  NcclGroup(std::shared_ptr<NcclCalls> calls, ncclComm_t comm, int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Ranks with one color come together, ordered by key; null where the color is negative. Collective.
  std::unique_ptr<NcclGroup> split(int color, int key) const;

  /// All that `body` calls, started together.
  void together(const std::function<void()>& body) const;

  // Inside together(), in one order on all ranks:
  void all_reduce(Tensor out, Tensor in, Queue& queue) const;
  /// Each rank has the sum of its piece in place; the others are undefined.
  void reduce_scatter(Tensor data, Queue& queue) const;
  void all_gather(Tensor data, Queue& queue) const;
  /// data = Σ data on `root`; unchanged on the others.
  void reduce(Tensor data, int root, Queue& queue) const;
  void broadcast(Tensor data, int root, Queue& queue) const;
  void send(Tensor data, int to, Queue& queue) const;
  void receive(Tensor data, int from, Queue& queue) const;

private:
  Tensor piece(Tensor data) const;

  std::shared_ptr<NcclCalls> calls_;
  ncclComm_t comm_;
  int rank_, size_;
};

}  // namespace gpt
