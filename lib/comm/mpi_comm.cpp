#include "comm/comm.hpp"
#include "comm/mpi_group.hpp"
#include "comm/pipeline.hpp"

namespace gpt {
namespace {

class MpiComm final : public Comm {
public:
  MpiComm(MPI_Comm group, int64_t chunk) : group_(group, chunk) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string name() const override { return "flat MPI"; }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    validate_sum(out.dtype());
    give_requests([this, out, in](Requests& requests) { group_.all_reduce(requests, out, in); }, pool_,
                  queue);
  }

  void reduce_scatter(Tensor data, Queue& queue) override {
    validate_sum(data.dtype());
    give_requests(
        [this, data](Requests& requests) {
          for (int owner = 0; owner < size(); ++owner)
            group_.reduce(requests, data.flat(part(data, owner)), owner);
          const Tensor rest = data.flat(tail(data.size()));
          group_.all_reduce(requests, rest, rest);
        },
        pool_, queue);
  }

  void all_gather(Tensor data, Queue& queue) override {
    give_requests(
        [this, data](Requests& requests) {
          for (int owner = 0; owner < size(); ++owner)
            group_.broadcast(requests, data.flat(part(data, owner)), owner);
        },
        pool_, queue);
  }

  void broadcast(Tensor data, int root, Queue& queue) override {
    give_requests([this, data, root](Requests& requests) { group_.broadcast(requests, data, root); }, pool_,
                  queue);
  }

  void barrier(Queue& queue) override {
    give_requests([this](Requests& requests) { group_.barrier(requests); }, pool_, queue);
  }

  Range owned(int64_t count) const override { return part(count, rank()); }
  bool is_first_owner() const override { return true; }
  int64_t owners() const override { return size(); }

private:
  Range part(int64_t count, int owner) const {
    const int64_t size = part_size(count);
    return {owner * size, (owner + 1) * size};
  }
  Range part(const Tensor& data, int owner) const { return part(data.size(), owner); }

  MpiGroup group_;
  RequestPool pool_;
};

}  // namespace

std::unique_ptr<Comm> make_mpi_comm(MPI_Comm group, int64_t chunk) {
  return std::make_unique<MpiComm>(group, chunk);
}

}  // namespace gpt
