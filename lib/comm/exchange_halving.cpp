#include "base/contracts.hpp"
#include "comm/exchange.hpp"

#include <array>
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
      slot.scratch.restart();
      const std::vector<Tensor> mine = pieces_near(pieces, messages_.rank(), distance);
      std::vector<Tensor> arrived;
      Requests requests(slot.pool);
      for (const Tensor& range : mine) {
        arrived.push_back(slot.scratch.take(range.dtype(), range.size()));
        messages_.receive(requests, arrived.back(), partner, slot.tag);
      }
      for (const Tensor& range : pieces_near(pieces, partner, distance))
        messages_.send(requests, range, partner, slot.tag);
      co_await until([&] { return requests.are_done(); });
      for (size_t i = 0; i < mine.size(); ++i) {
        const std::array<Summand, 2> both = {Summand{arrived[i].raw(), mine[i].dtype()},
                                             Summand{mine[i].raw(), mine[i].dtype()}};
        sum_arrays(mine[i], both, order_);
      }
    }
  }

  Task gather(const Pieces& pieces, Slot slot) override {
    for (int distance = 1; distance < messages_.size(); distance *= 2) {
      const int partner = messages_.rank() ^ distance;
      Requests requests(slot.pool);
      for (const Tensor& range : pieces_near(pieces, partner, distance))
        messages_.receive(requests, range, partner, slot.tag);
      for (const Tensor& range : pieces_near(pieces, messages_.rank(), distance))
        messages_.send(requests, range, partner, slot.tag);
      co_await until([&] { return requests.are_done(); });
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
  const SumOrder order_ = in_turn(2);
};

}  // namespace

std::unique_ptr<Exchange> make_halving(MPI_Comm group) { return std::make_unique<Halving>(group); }

}  // namespace gpt
