#include "base/contracts.hpp"
#include "comm/nccl/hop.hpp"

namespace gpt {
namespace {

class PlainHop final : public Hop {
public:
  PlainHop(const NcclGroup& group, int owners) : group_(group), owners_(owners) {}

  void reduce_scatter(Tensor data, Queue& queue) override {
    if (group_.size() == 1) return;
    group_.together([&] {
      if (all_own()) return group_.reduce_scatter(data, queue);
      for (int owner = 0; owner < owners_; ++owner) group_.reduce(piece(data, owner), owner, queue);
    });
  }

  void all_gather(Tensor data, Queue& queue) override {
    if (group_.size() == 1) return;
    group_.together([&] {
      if (all_own()) return group_.all_gather(data, queue);
      for (int owner = 0; owner < owners_; ++owner) group_.broadcast(piece(data, owner), owner, queue);
    });
  }

  void all_reduce(Tensor data, Queue& queue) override {
    expects(all_own());
    if (group_.size() == 1) return;
    group_.together([&] { group_.all_reduce(data, data, queue); });
  }

private:
  bool all_own() const { return owners_ == group_.size(); }
  Tensor piece(const Tensor& data, int owner) const {
    return data.flat(part_of(data.size(), owners_, owner));
  }

  const NcclGroup& group_;
  int owners_;
};

}  // namespace

std::unique_ptr<Hop> make_plain_hop(const NcclGroup& group, int owners) {
  return std::make_unique<PlainHop>(group, owners);
}

}  // namespace gpt
