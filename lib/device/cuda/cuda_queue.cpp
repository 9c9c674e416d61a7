#include "device/cuda/cuda_queue.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/native.hpp"

#include <cstring>
#include <thread>
#include <utility>

namespace gpt {
namespace {

struct HostTask {
  std::function<void()> run;
  std::shared_ptr<HostFailure> failure;
};

void run_host_task(void* data) {
  const std::unique_ptr<HostTask> task(static_cast<HostTask*>(data));
  if (task->failure->happened()) return;
  try {
    task->run();
  } catch (...) {
    task->failure->set(std::current_exception());
  }
}

/// Memory that CUDA knows nothing of: malloc's, the stack's, files'.
bool is_pageable(const void* data) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, data));
  return attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace

void HostFailure::set(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  happened_ = true;
}

void HostFailure::rethrow() const {
  if (!happened_) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(failure_);
}

CudaEvent::CudaEvent(int device, Timing timing, std::shared_ptr<const HostFailure> failure)
    : device_(device), failure_(std::move(failure)) {
  use_cuda_device(device_);
  cudaEvent_t event = nullptr;
  check_cuda(
      cudaEventCreateWithFlags(&event, timing == Timing::kept ? cudaEventDefault : cudaEventDisableTiming));
  handle_.reset(event);
}

void CudaEvent::synchronize() {
  use_cuda_device(device_);
  check_cuda(cudaEventSynchronize(handle_.get()));
  failure_->rethrow();
}

bool CudaEvent::reached() const {
  use_cuda_device(device_);
  const cudaError_t state = cudaEventQuery(handle_.get());
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // else whoever asks for the last failure would be told of this one
    return false;
  }
  check_cuda(state);
  failure_->rethrow();
  return true;
}

double CudaEvent::seconds_since(const TimedEvent& earlier) const {
  use_cuda_device(device_);
  float milliseconds = 0.0F;
  check_cuda(cudaEventElapsedTime(&milliseconds, static_cast<const CudaEvent&>(earlier).handle(), handle()));
  return static_cast<double>(milliseconds) * 1e-3;
}

CudaQueue::CudaQueue(int device, Priority priority, std::shared_ptr<HostFailure> failure)
    : device_(device), failure_(std::move(failure)) {
  use_cuda_device(device_);
  int lowest = 0, highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          priority == Priority::high ? highest : lowest));
  stream_.reset(stream);
}

CudaQueue::~CudaQueue() {
  if (std::uncaught_exceptions() > 0) {
    given_up_ = true;
    stream_.release();
    return;
  }
  // Host tasks may use what their givers own, and memory must not go while kernels use it.
  use_cuda_device(device_);
  cudaStreamSynchronize(stream());
}

void CudaQueue::copy(Tensor dst, Tensor src) {
  expects(dst.dtype() == src.dtype() && dst.size() == src.size());
  if (dst.bytes() == 0) return;
  use_cuda_device(device_);
  const auto bytes = static_cast<size_t>(dst.bytes());
  const bool from_pageable = is_pageable(src.raw()), to_pageable = is_pageable(dst.raw());
  if (dst.bytes() > Staging::largest || from_pageable == to_pageable) {
    // Also from pageable to pageable memory, in the stream's order.
    if (from_pageable && to_pageable)
      host([to = dst.raw(), from = src.raw(), bytes] { std::memcpy(to, from, bytes); });
    else
      check_cuda(cudaMemcpyAsync(dst.raw(), src.raw(), bytes, cudaMemcpyDefault, stream()));
    return;
  }
  Staging::Slot& slot = staging_.take(dst.bytes());
  if (from_pageable) {
    std::memcpy(slot.memory.data(), src.raw(), bytes);
    check_cuda(cudaMemcpyAsync(dst.raw(), slot.memory.data(), bytes, cudaMemcpyDefault, stream()));
  } else {
    check_cuda(cudaMemcpyAsync(slot.memory.data(), src.raw(), bytes, cudaMemcpyDefault, stream()));
    host([to = dst.raw(), from = slot.memory.data(), bytes] { std::memcpy(to, from, bytes); });
  }
  check_cuda(cudaEventRecord(slot.used.get(), stream()));
}

void CudaQueue::zero(Tensor dst) {
  if (dst.bytes() == 0) return;
  use_cuda_device(device_);
  const auto bytes = static_cast<size_t>(dst.bytes());
  if (is_pageable(dst.raw()))
    host([to = dst.raw(), bytes] { std::memset(to, 0, bytes); });
  else
    check_cuda(cudaMemsetAsync(dst.raw(), 0, bytes, stream()));
}

void CudaQueue::host(std::function<void()> task) {
  use_cuda_device(device_);
  auto given = std::make_unique<HostTask>(HostTask{.run = std::move(task), .failure = failure_});
  check_cuda(cudaLaunchHostFunc(stream(), run_host_task, given.get()));
  given.release();  // the task's own now
}

void CudaQueue::record(Event& event) {
  use_cuda_device(device_);
  check_cuda(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), stream()));
}

void CudaQueue::wait(Event& event) {
  use_cuda_device(device_);
  check_cuda(cudaStreamWaitEvent(stream(), static_cast<CudaEvent&>(event).handle(), 0));
}

void CudaQueue::synchronize() {
  use_cuda_device(device_);
  check_cuda(cudaStreamSynchronize(stream()));
  failure_->rethrow();
}

void CudaQueue::pause(int64_t, std::chrono::nanoseconds time) {
  validate(!given_up_, ExitCode::failed, "communication was given up, because this rank failed");
  std::this_thread::sleep_for(time);
}

cudaStream_t stream_of(Queue& queue) { return cuda_queue(queue).stream(); }

}  // namespace gpt
