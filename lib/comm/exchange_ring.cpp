#include "comm/exchange.hpp"

#include <array>

namespace gpt {
namespace {

class Ring final : public Exchange {
public:
  explicit Ring(MPI_Comm group) : messages_(group) {}

  // Member i sends piece i−1 first and adds its own to what comes, so that piece i ends its round at member
  // i.
  Task reduce(const Pieces& pieces, Slot slot) override {
    for (int step = 0; step + 1 < messages_.size(); ++step) {
      slot.scratch.restart();
      const std::vector<Tensor>& mine = piece(pieces, -2 - step);
      std::vector<Tensor> arrived;
      Requests requests(slot.pool);
      for (const Tensor& range : mine) {
        arrived.push_back(slot.scratch.take(range.dtype(), range.size()));
        messages_.receive(requests, arrived.back(), neighbour(-1), slot.tag);
      }
      for (const Tensor& range : piece(pieces, -1 - step))
        messages_.send(requests, range, neighbour(1), slot.tag);
      co_await until([&] { return requests.are_done(); });
      for (size_t i = 0; i < mine.size(); ++i) {
        const std::array<Summand, 2> both = {Summand{arrived[i].raw(), mine[i].dtype()},
                                             Summand{mine[i].raw(), mine[i].dtype()}};
        sum_arrays(mine[i], both, order_);
      }
    }
  }

  Task gather(const Pieces& pieces, Slot slot) override {
    for (int step = 0; step + 1 < messages_.size(); ++step) {
      Requests requests(slot.pool);
      for (const Tensor& range : piece(pieces, -1 - step))
        messages_.receive(requests, range, neighbour(-1), slot.tag);
      for (const Tensor& range : piece(pieces, -step))
        messages_.send(requests, range, neighbour(1), slot.tag);
      co_await until([&] { return requests.are_done(); });
    }
  }

private:
  int neighbour(int distance) const {
    const int n = messages_.size();
    return ((messages_.rank() + distance) % n + n) % n;
  }
  const std::vector<Tensor>& piece(const Pieces& pieces, int distance) const {
    return pieces[static_cast<size_t>(neighbour(distance))];
  }

  Messages messages_;
  const SumOrder order_ = in_turn(2);
};

}  // namespace

std::unique_ptr<Exchange> make_ring(MPI_Comm group) { return std::make_unique<Ring>(group); }

}  // namespace gpt
