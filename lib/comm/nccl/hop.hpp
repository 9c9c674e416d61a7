#pragma once

#include "comm/nccl/nccl_group.hpp"
#include "device/device.hpp"

#include <cstdint>
#include <memory>

namespace gpt {

/// One hop of a hierarchy: sums and copies inside a group of ranks, the first `owners` of which own a piece
/// each. The pieces of `data` have one size, and owner i's is the i-th; all in order on a queue's stream.
/// Ranks beyond the owners only add and receive.
class Hop {
public:
  virtual ~Hop() = default;
  /// Owners have the sum of their piece in place; the rest of `data` is undefined.
  virtual void reduce_scatter(Tensor data, Queue& queue) = 0;
  /// Every rank has all owners' pieces.
  virtual void all_gather(Tensor data, Queue& queue) = 0;
  /// Every rank has all sums. All ranks are owners.
  virtual void all_reduce(Tensor data, Queue& queue) = 0;
};

/// By NCCL's own collectives, in the type of the data. @param group  outlives it
std::unique_ptr<Hop> make_plain_hop(const NcclGroup& group, int owners);

/// f32 that travels as bf16: a piece is rounded when it leaves its rank (the owner's own is not), all are
/// added in f32 in the order of the ranks, and the sum is rounded once; what is gathered is rounded at its
/// owner too, so that all ranks hold the same bits.
/// @param piece  elements of each piece that are under way at a time; for them it has memory
/// (rounded_hop_bytes)
std::unique_ptr<Hop> make_rounded_hop(const NcclGroup& group, int owners, Device& device, int64_t piece);

}  // namespace gpt
