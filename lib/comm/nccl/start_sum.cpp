#include "comm/nccl/start_sum.hpp"

#include "base/error.hpp"
#include "base/stopwatch.hpp"
#include "comm/nccl/nccl_error.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/native.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

using namespace std::chrono_literals;

constexpr int64_t period = 16;

/// Whole numbers, whose sums are exact.
float term(int rank, int64_t i) { return static_cast<float>(rank % 64 + i % period); }

/// Sums over all ranks of the elements of one period.
std::array<float, period> sums_of_terms(int ranks) {
  std::array<float, period> sums{};
  for (int64_t i = 0; i < period; ++i)
    for (int rank = 0; rank < ranks; ++rank) sums[static_cast<size_t>(i)] += term(rank, i);
  return sums;
}

/// Waits as the queue's own synchronize does not: for so long, and not beyond a failure.
void wait_for(Queue& queue, NcclCalls& calls, double timeout) {
  const Stopwatch watch;
  while (true) {
    const cudaError_t state = cudaStreamQuery(stream_of(queue));
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check_cuda(state);
    const std::optional<std::string> fault = calls.fault();
    validate(!fault, ExitCode::rank_failed, "{}", fault.value_or(""));
    validate(watch.seconds() < timeout, ExitCode::rank_failed, "it did not end within {:g} s. {}", timeout,
             network_advice());
    std::this_thread::sleep_for(20us);
  }
}

double try_once(const World& world, const NcclGroup& group, NcclCalls& calls, Device& device, int64_t count,
                double timeout) {
  constexpr int times = 3;  // the first connects
  std::vector<float> host(static_cast<size_t>(count));
  const Tensor host_values(host.data(), DType::f32, {count});
  const TensorBuffer values(device, DType::f32, {count}), sums(device, DType::f32, {count});
  const std::unique_ptr<Queue> queue = device.make_communication_queue();
  for (int64_t i = 0; i < count; ++i) host[static_cast<size_t>(i)] = term(group.rank(), i);
  queue->copy(values, host_values);
  queue->synchronize();

  double least = 0.0;
  for (int time = 0; time < times; ++time) {
    world.barrier();
    const Stopwatch watch;
    group.together([&] { group.all_reduce(sums, values, *queue); });
    wait_for(*queue, calls, timeout);
    least = time == 0 ? watch.seconds() : std::min(least, watch.seconds());
  }
  queue->copy(host_values, sums);
  queue->synchronize();
  const std::array<float, period> expected = sums_of_terms(group.size());
  for (int64_t i = 0; i < count; ++i) {
    const float sum = host[static_cast<size_t>(i)], right = expected[static_cast<size_t>(i % period)];
    validate(sum == right, ExitCode::rank_failed, "element {} of the sum is {}, not {}", i, sum, right);
  }
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MAX, world.world()));
  return least;
}

}  // namespace

double try_all_reduce(const World& world, const NcclGroup& group, NcclCalls& calls, Device& device,
                      int64_t bytes, double timeout) {
  try {
    const Watchdog::Waiting waiting(world.watchdog());
    return try_once(world, group, calls, device, std::max<int64_t>(1, bytes / size_of(DType::f32)), timeout);
  } catch (const Error& error) {
    throw Error(
        fmt::format("the all-reduce that NCCL is tried with at the start failed: {}. Where ranks of a "
                    "node do not see each other's GPUs, give the node's tasks all of them: "
                    "--gpus-per-node=N with --gpu-bind=none, not --gpus-per-task",
                    error.what()),
        error.code());
  }
}

}  // namespace gpt
