#include "base/contracts.hpp"
#include "comm/nccl/hop.hpp"
#include "device/cuda/rounded_sum.hpp"

#include <algorithm>

namespace gpt {
namespace {

class RoundedHop final : public Hop {
public:
  RoundedHop(const NcclGroup& group, int owners, Device& device, int64_t piece)
      : group_(group),
        owners_(owners),
        ops_(device.ops()),
        largest_(piece),
        leaving_(device, DType::bf16, {group.size() * piece}),
        arriving_(device, DType::bf16, {group.size() * piece}) {}

  void reduce_scatter(Tensor data, Queue& queue) override {
    if (group_.size() == 1) return;
    for_each_block(data, [&](Range block) {
      for (int owner = 0; owner < owners_; ++owner)
        if (owner != group_.rank()) ops_.cast(slot(leaving_, owner, block), piece(data, owner, block), queue);
      group_.together([&] {
        for (int other = 0; other < group_.size(); ++other) {
          if (other == group_.rank()) continue;
          if (other < owners_) group_.send(slot(leaving_, other, block), other, queue);
          if (is_owner()) group_.receive(slot(arriving_, other, block), other, queue);
        }
      });
      if (is_owner())
        sum_rounded(piece(data, group_.rank(), block), slots(arriving_, group_.size(), block), group_.rank(),
                    queue);
    });
  }

  void all_gather(Tensor data, Queue& queue) override {
    for_each_block(data, [&](Range block) {
      if (is_owner())
        ops_.cast(slot(arriving_, group_.rank(), block), piece(data, group_.rank(), block), queue);
      if (group_.size() > 1)
        group_.together([&] {
          if (owners_ == group_.size()) return group_.all_gather(slots(arriving_, owners_, block), queue);
          for (int owner = 0; owner < owners_; ++owner)
            group_.broadcast(slot(arriving_, owner, block), owner, queue);
        });
      for (int owner = 0; owner < owners_; ++owner)
        ops_.cast(piece(data, owner, block), slot(arriving_, owner, block), queue);
    });
  }

  void all_reduce(Tensor data, Queue& queue) override {
    expects(owners_ == group_.size());
    reduce_scatter(data, queue);
    all_gather(data, queue);
  }

private:
  bool is_owner() const { return group_.rank() < owners_; }

  /// Calls work(range of every piece).
  template <class Work>
  void for_each_block(const Tensor& data, const Work& work) const {
    expects(data.dtype() == DType::f32 && data.size() % owners_ == 0);
    const int64_t all = data.size() / owners_;
    for (int64_t begin = 0; begin < all; begin += largest_)
      work(Range{begin, std::min(all, begin + largest_)});
  }

  Tensor piece(const Tensor& data, int owner, Range block) const {
    return data.flat(shifted(block, owner * (data.size() / owners_)));
  }

  /// The first so many places of a block's pieces, side by side.
  static Tensor slots(const Tensor& memory, int count, Range block) {
    return memory.flat({0, count * block.size()});
  }
  static Tensor slot(const Tensor& memory, int member, Range block) {
    return memory.flat({member * block.size(), (member + 1) * block.size()});
  }

  const NcclGroup& group_;
  int owners_;
  Ops& ops_;
  int64_t largest_;
  TensorBuffer leaving_, arriving_;  // bf16
};

}  // namespace

std::unique_ptr<Hop> make_rounded_hop(const NcclGroup& group, int owners, Device& device, int64_t piece) {
  return std::make_unique<RoundedHop>(group, owners, device, piece);
}

}  // namespace gpt
