#include "comm/comm.hpp"
#include "comm/mpi_group.hpp"

namespace gpt {
namespace {

class MpiComm final : public Comm {
public:
  MpiComm(MPI_Comm group, int64_t chunk) : group_(group, chunk) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string name() const override { return "flat MPI"; }

  void all_reduce(Tensor out, Tensor in, Queue& queue) override {
    queue.host([this, out, in] { group_.all_reduce(out, in); });
  }

  void reduce_scatter(Tensor data, Queue& queue) override {
    queue.host([this, data] {
      group_.reduce_scatter(data, data, parts(data.size()));
      const Tensor rest = data.flat(tail(data.size()));
      group_.all_reduce(rest, rest);
    });
  }

  void all_gather(Tensor data, Queue& queue) override {
    queue.host([this, data] { group_.all_gather(data, parts(data.size())); });
  }

  void broadcast(Tensor data, int root, Queue& queue) override {
    queue.host([this, data, root] { group_.broadcast(data, root); });
  }

  void barrier(Queue& queue) override {
    queue.host([this] { group_.barrier(); });
  }

  Range owned(int64_t count) const override { return parts(count)[static_cast<size_t>(rank())]; }

private:
  std::vector<Range> parts(int64_t count) const {
    return cut_aligned(size() * part_size(count), size(), size(), alignment);
  }

  MpiGroup group_;
};

}  // namespace

std::unique_ptr<Comm> make_mpi_comm(MPI_Comm group, int64_t chunk) {
  return std::make_unique<MpiComm>(group, chunk);
}

}  // namespace gpt
