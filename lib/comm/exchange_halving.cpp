#include "base/contracts.hpp"
#include "comm/exchange.hpp"

#include <bit>

namespace gpt {
namespace {

class Halving final : public Exchange {
public:
  explicit Halving(MPI_Comm group) : messages_(group) {
    expects(std::has_single_bit(static_cast<unsigned>(messages_.size())));
  }

  Task reduce(const Pieces& pieces, Slot slot) override {
    for (int distance = messages_.size() / 2; distance > 0; distance /= 2) {
      const int partner = messages_.rank() ^ distance;
      const std::vector<Tensor> mine = pieces_near(pieces, messages_.rank(), distance);
      const std::vector<Tensor> theirs = pieces_near(pieces, partner, distance);
      co_await send_and_add(messages_, theirs, partner, mine, partner, slot);
    }
  }

  Task gather(const Pieces& pieces, Slot slot) override {
    for (int distance = 1; distance < messages_.size(); distance *= 2) {
      const int partner = messages_.rank() ^ distance;
      const std::vector<Tensor> mine = pieces_near(pieces, messages_.rank(), distance);
      const std::vector<Tensor> theirs = pieces_near(pieces, partner, distance);
      co_await send_and_receive(messages_, mine, partner, theirs, partner, slot);
    }
  }

private:
  // The pieces of the aligned group of `distance` members around `member`: what it is to hold after a step.
  static std::vector<Tensor> pieces_near(const Pieces& pieces, int member, int distance) {
    std::vector<Tensor> ranges;
    const int first = member / distance * distance;
    for (int i = first; i < first + distance; ++i)
      ranges.insert(ranges.end(), pieces[static_cast<size_t>(i)].begin(),
                    pieces[static_cast<size_t>(i)].end());
    return ranges;
  }

  Messages messages_;
};

}  // namespace

std::unique_ptr<Exchange> make_halving(MPI_Comm group) { return std::make_unique<Halving>(group); }

}  // namespace gpt
