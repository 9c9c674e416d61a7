#include "comm/exchange.hpp"

namespace gpt {
namespace {

class Ring final : public Exchange {
public:
  explicit Ring(MPI_Comm group) : messages_(group) {}

  // Member i sends piece i−1 first and adds its own to what comes, so that piece i ends its round
  // at member i.
  Task reduce(const Pieces& pieces, Slot slot) override {
    for (int step = 0; step + 1 < messages_.size(); ++step)
      co_await send_and_add(messages_, piece(pieces, -1 - step), messages_.neighbour(1),
                            piece(pieces, -2 - step), messages_.neighbour(-1), slot);
  }

  Task gather(const Pieces& pieces, Slot slot) override {
    for (int step = 0; step + 1 < messages_.size(); ++step)
      co_await send_and_receive(messages_, piece(pieces, -step), messages_.neighbour(1),
                                piece(pieces, -1 - step), messages_.neighbour(-1), slot);
  }

private:
  const std::vector<Tensor>& piece(const Pieces& pieces, int distance) const {
    return pieces[static_cast<size_t>(messages_.neighbour(distance))];
  }

  Messages messages_;
};

}  // namespace

std::unique_ptr<Exchange> make_ring(MPI_Comm group) { return std::make_unique<Ring>(group); }

}  // namespace gpt
