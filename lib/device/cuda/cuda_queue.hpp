#pragma once

#include "device/cuda/handles.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda/staging.hpp"
#include "device/timed_event.hpp"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

namespace gpt {

/// What a host task of a device's queues threw, which every wait for any of them throws from then on.
class HostFailure {
public:
  bool happened() const { return happened_; }
  void set(std::exception_ptr failure);
  /// @throws what was set, if anything was
  void rethrow() const;

private:
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::atomic<bool> happened_ = false;
};

class CudaEvent final : public TimedEvent {
public:
  /// Whether it keeps its time: seconds_since fails for one that does not.
  enum class Timing { none, kept };

  CudaEvent(int device, Timing timing, std::shared_ptr<const HostFailure> failure);
  void synchronize() override;
  bool reached() const override;
  double seconds_since(const TimedEvent& earlier) const override;

  cudaEvent_t handle() const { return handle_.get(); }

private:
  int device_;
  std::shared_ptr<const HostFailure> failure_;
  CudaEventHandle handle_;
};

/// A stream, and what operations on it need beside their tensors. After a host task of the device has failed
/// the others are dropped; work of the GPU goes on.
class CudaQueue final : public Queue {
public:
  enum class Priority { normal, high };

  CudaQueue(int device, Priority priority, std::shared_ptr<HostFailure> failure);
  /// Waits for its work, unless an exception passes: it may then never end.
  ~CudaQueue() override;

  void copy(Tensor dst, Tensor src) override;
  void zero(Tensor dst) override;
  void host(std::function<void()> task) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void pause(int64_t idle, std::chrono::nanoseconds time) override;

  cudaStream_t stream() const { return stream_.get(); }

  /// Memory for one operation, until the next asks. Never beyond the queue: what stands before it in the
  /// stream is done with it.
  std::byte* scratch(int64_t bytes) { return scratch_.reserve(bytes); }
  /// cuBLASLt's own, cublas_workspace_bytes of it.
  std::byte* workspace() { return workspace_.reserve(cublas_workspace_bytes); }
  /// Of both, that it has by now.
  int64_t scratch_bytes() const { return scratch_.bytes() + workspace_.bytes(); }

private:
  int device_;
  std::shared_ptr<HostFailure> failure_;
  StreamHandle stream_;
  Staging staging_;
  CudaScratch scratch_, workspace_;
  std::atomic<bool> given_up_ = false;
};

/// A queue of a CUDA device.
inline CudaQueue& cuda_queue(Queue& queue) { return static_cast<CudaQueue&>(queue); }

}  // namespace gpt
