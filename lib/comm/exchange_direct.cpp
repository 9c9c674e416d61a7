#include "base/contracts.hpp"
#include "comm/exchange.hpp"

#include <utility>

namespace gpt {
namespace {

class Direct final : public Exchange {
public:
  Direct(MPI_Comm group, SumOrder order, DType wire)
      : messages_(group), order_(std::move(order)), wire_(wire) {}

  Task reduce(const Pieces& pieces, Slot slot) override {
    slot.scratch.restart();
    const std::vector<Tensor>& mine = pieces[static_cast<size_t>(messages_.rank())];
    Pieces arrived(pieces.size());
    Requests requests(slot.pool);
    for (int step = 1; step < messages_.size(); ++step) {
      const auto from = static_cast<size_t>(messages_.neighbour(-step));
      for (const Tensor& range : mine) {
        arrived[from].push_back(slot.scratch.take(travels_as(range), range.size()));
        messages_.receive(requests, arrived[from].back(), messages_.neighbour(-step), slot.tag);
      }
    }
    for (int step = 1; step < messages_.size(); ++step) {
      for (const Tensor& range : pieces[static_cast<size_t>(messages_.neighbour(step))])
        messages_.send(requests, converted(range, slot), messages_.neighbour(step), slot.tag);
    }
    co_await until([&] { return requests.are_done(); });
    for (size_t i = 0; i < mine.size(); ++i) {
      std::vector<Summand> summands;
      for (size_t member = 0; member < arrived.size(); ++member) {
        const bool own = std::cmp_equal(member, messages_.rank());
        const Tensor& from = own ? mine[i] : arrived[member][i];
        summands.push_back({.data = from.raw(), .dtype = from.dtype()});
      }
      sum_arrays(mine[i], summands, order_, travels_as(mine[i]));
    }
  }

  Task gather(const Pieces& pieces, Slot slot) override {
    slot.scratch.restart();
    std::vector<std::pair<Tensor, Tensor>> to_widen;  // where to, from
    Requests requests(slot.pool);
    for (int step = 1; step < messages_.size(); ++step) {
      for (const Tensor& range : pieces[static_cast<size_t>(messages_.neighbour(-step))]) {
        const bool as_it_is = travels_as(range) == range.dtype();
        const Tensor arrived = as_it_is ? range : slot.scratch.take(travels_as(range), range.size());
        if (!as_it_is) to_widen.emplace_back(range, arrived);
        messages_.receive(requests, arrived, messages_.neighbour(-step), slot.tag);
      }
    }
    for (const Tensor& range : pieces[static_cast<size_t>(messages_.rank())]) {
      const Tensor outgoing = converted(range, slot);
      for (int step = 1; step < messages_.size(); ++step)
        messages_.send(requests, outgoing, messages_.neighbour(step), slot.tag);
    }
    co_await until([&] { return requests.are_done(); });
    for (const auto& [to, from] : to_widen) convert(to, from);
  }

private:
  DType travels_as(const Tensor& data) const { return data.dtype() == DType::f32 ? wire_ : data.dtype(); }

  Tensor converted(const Tensor& data, Slot slot) const {
    if (travels_as(data) == data.dtype()) return data;
    const Tensor outgoing = slot.scratch.take(travels_as(data), data.size());
    convert(outgoing, data);
    return outgoing;
  }

  static void convert(Tensor to, Tensor from) {
    const Summand only{.data = from.raw(), .dtype = from.dtype()};
    sum_arrays(to, {&only, 1}, in_turn(1));
  }

  Messages messages_;
  SumOrder order_;
  DType wire_;
};

}  // namespace

std::unique_ptr<Exchange> make_direct(MPI_Comm group, SumOrder order, DType wire) {
  return std::make_unique<Direct>(group, std::move(order), wire);
}

}  // namespace gpt
