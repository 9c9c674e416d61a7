#include "train/library_memory.hpp"

#include "base/mpi.hpp"
#include "device/cuda_device.hpp"

#include <algorithm>
#include <memory>

namespace gpt {
namespace {

/// A bucket, and the loss as the Reducer sums it.
void sum_as_a_step_does(const World& world, Device& device, Comm& comm, int64_t elements, bool sharded) {
  TensorBuffer bucket, loss;
  std::unique_ptr<Queue> queue;
  world.everywhere([&] {
    bucket = TensorBuffer(device, DType::f32, {elements});
    loss = TensorBuffer(device, DType::f64, {1});
    queue = device.make_communication_queue();
  });
  const Watchdog::Waiting waiting(world.watchdog());
  if (sharded) {
    comm.reduce_scatter(bucket, *queue);
    comm.all_gather(bucket, *queue);
  } else {
    comm.all_reduce(bucket, bucket, *queue);
  }
  comm.all_reduce(loss, loss, *queue);
  queue->synchronize();
}

}  // namespace

LibraryMemory::LibraryMemory(const DeviceChoice& device)
    : gpu_(device.gpu), free_before_(device.gpu ? free_cuda_memory(*device.gpu) : 0) {}

int64_t LibraryMemory::measure(const World& world, Device& device, Comm& comm, int64_t elements, bool sharded,
                               int64_t held) const {
  if (!gpu_) return 0;
  sum_as_a_step_does(world, device, comm, elements, sharded);
  int64_t taken = std::max<int64_t>(0, free_before_ - free_cuda_memory(*gpu_) - held);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_INT64_T, MPI_MAX, world.world()));
  return taken;
}

}  // namespace gpt
