#include "comm/exchange.hpp"
#include "comm/mpi_group.hpp"

#include <cstddef>

namespace gpt {
namespace {

/// Ranges that lie side by side, joined: few large calls suit a library.
std::vector<Tensor> joined(const Pieces& pieces) {
  std::vector<Tensor> ranges;
  for (const std::vector<Tensor>& piece : pieces) {
    for (const Tensor& range : piece) {
      if (range.size() == 0) continue;
      const bool adjoins =
          !ranges.empty() &&
          static_cast<std::byte*>(ranges.back().raw()) + ranges.back().bytes() == range.raw();
      if (adjoins)
        ranges.back() = {ranges.back().raw(), range.dtype(), {ranges.back().size() + range.size()}};
      else
        ranges.push_back(range);
    }
  }
  return ranges;
}

class Library final : public Exchange {
public:
  Library(MPI_Comm group, int64_t chunk) : group_(group, chunk) {}

  Task all_reduce(const Pieces& pieces, Slot slot) override {
    Requests requests(slot.pool);
    for (const Tensor& range : joined(pieces)) group_.all_reduce(requests, range, range);
    co_await until([&] { return requests.are_done(); });
  }

  Task reduce(const Pieces& pieces, Slot slot) override {
    Requests requests(slot.pool);
    for (int owner = 0; owner < group_.size(); ++owner)
      for (const Tensor& range : pieces[static_cast<size_t>(owner)]) group_.reduce(requests, range, owner);
    co_await until([&] { return requests.are_done(); });
  }

  Task gather(const Pieces& pieces, Slot slot) override {
    Requests requests(slot.pool);
    for (int owner = 0; owner < group_.size(); ++owner)
      for (const Tensor& range : pieces[static_cast<size_t>(owner)]) group_.broadcast(requests, range, owner);
    co_await until([&] { return requests.are_done(); });
  }

private:
  MpiGroup group_;
};

}  // namespace

std::unique_ptr<Exchange> make_library(MPI_Comm group, int64_t chunk) {
  return std::make_unique<Library>(group, chunk);
}

}  // namespace gpt
