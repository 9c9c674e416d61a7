#include "base/error.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/cuda_ops.hpp"
#include "device/cuda/cuda_queue.hpp"
#include "device/cuda/cudnn_attention.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/native.hpp"
#include "device/cuda_device.hpp"
#include "device/cuda_scratch.hpp"

#include <cstring>
#include <cublasLt.h>
#include <fmt/format.h>
#include <utility>

namespace gpt {
namespace {

constexpr int least_major = 8;  // compute capability: bf16 products came with 8.0

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string cublas_version() {
  const size_t version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

CudaDeviceInfo describe(int index) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index));
  CudaDeviceInfo info{.index = index,
                      .name = properties.name,
                      .memory = static_cast<int64_t>(properties.totalGlobalMem),
                      .major = properties.major,
                      .minor = properties.minor};
  static_assert(sizeof properties.uuid == sizeof info.uuid);
  std::memcpy(info.uuid.data(), &properties.uuid, sizeof info.uuid);
  return info;
}

/// The device of the calling thread, set before anything is made for it.
class Selected {
public:
  explicit Selected(int index) : index_(index) { use_cuda_device(index); }
  int index() const { return index_; }

private:
  int index_;
};

class PinnedMemory final : public Allocator {
public:
  explicit PinnedMemory(int device) : device_(device) {}

  void* allocate(int64_t bytes) override {
    use_cuda_device(device_);
    void* const data = allocate_pinned(bytes);
    std::memset(data, 0, static_cast<size_t>(bytes));
    return data;
  }
  void release(void* data, int64_t) override {
    cudaSetDevice(device_);
    release_pinned(data);
  }

private:
  int device_;
};

class CudaDevice final : public Device {
public:
  CudaDevice(const CudaDeviceInfo& info, const CudaOptions& options)
      : info_(info),
        options_(options),
        selected_(info.index),
        pinned_(info.index),
        ops_(options, options.cudnn_attention ? make_cudnn_attention() : nullptr) {}

  void* allocate(int64_t bytes) override {
    use_cuda_device(index());
    void* const data = allocate_on_gpu(bytes);
    // Queues do not wait for the default stream, in which this is done.
    check_cuda(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), nullptr));
    check_cuda(cudaStreamSynchronize(nullptr));
    return data;
  }
  void release(void* data, int64_t) override {
    cudaSetDevice(index());
    release_on_gpu(data);
  }

  std::string name() const override {
    return fmt::format("{} ({:.0f} GiB, compute capability {}.{}), CUDA {}, {}{}{}", info_.name,
                       static_cast<double>(info_.memory) / 0x1p30, info_.major, info_.minor, cuda_version(),
                       cublas_version(), options_.cudnn_attention ? ", cuDNN " + cudnn_version() : "",
                       options_.tf32 ? ", TF32" : "");
  }
  bool multiplies(DType type) const override { return type == DType::f32 || type == DType::bf16; }
  std::unique_ptr<Queue> make_queue() override { return make(CudaQueue::Priority::normal); }
  std::unique_ptr<Queue> make_communication_queue() override { return make(CudaQueue::Priority::high); }
  std::unique_ptr<Queue> make_copy_queue() override { return make(CudaQueue::Priority::normal); }
  Allocator& host_memory() override { return pinned_; }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CudaEvent>(index(), CudaEvent::Timing::none, failure_);
  }
  std::unique_ptr<TimedEvent> make_timed_event() override {
    return std::make_unique<CudaEvent>(index(), CudaEvent::Timing::kept, failure_);
  }
  CudaOps& ops() override { return ops_; }
  void reserve(Queue& queue, const ScratchShape& shape) override {
    use_cuda_device(index());
    CudaQueue& reserving = cuda_queue(queue);
    reserving.scratch(cuda_scratch_bytes(shape, options_) - cublas_workspace_bytes);
    reserving.workspace();
  }

  int index() const { return selected_.index(); }

private:
  std::unique_ptr<Queue> make(CudaQueue::Priority priority) {
    return std::make_unique<CudaQueue>(index(), priority, failure_);
  }

  CudaDeviceInfo info_;
  CudaOptions options_;
  Selected selected_;
  PinnedMemory pinned_;
  std::shared_ptr<HostFailure> failure_ = std::make_shared<HostFailure>();
  CudaOps ops_;
};

}  // namespace

void use_cuda_device(int index) { check_cuda(cudaSetDevice(index)); }

int cuda_index(const Device& device) { return dynamic_cast<const CudaDevice&>(device).index(); }

bool has_cuda() { return true; }

std::string cuda_runtime_version() {
  int loaded = 0;
  check_cuda(cudaRuntimeGetVersion(&loaded));
  return version_text(loaded);
}

std::string cuda_version() {
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver));
  return fmt::format("compiled {}, loaded {}, driver {}", version_text(CUDART_VERSION),
                     cuda_runtime_version(), version_text(driver));
}

std::vector<CudaDeviceInfo> visible_cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  std::vector<CudaDeviceInfo> devices;
  for (int index = 0; index < count; ++index) devices.push_back(describe(index));
  return devices;
}

int64_t free_cuda_memory(int index) {
  use_cuda_device(index);
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

std::string why_no_cuda_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  return fmt::format(
      "no GPU is visible here (CUDA: {}): look at nvidia-smi, CUDA_VISIBLE_DEVICES and the batch "
      "system's --gpus-per-node, or use --device cpu",
      status == cudaSuccess ? "0 devices" : cudaGetErrorString(status));
}

std::unique_ptr<Device> make_cuda_device(int index, const CudaOptions& options) {
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices();
  validate(!devices.empty(), ExitCode::failed, "{}", why_no_cuda_device());
  validate(index >= 0 && index < std::ssize(devices), ExitCode::failed,
           "GPU {} was asked for, and {} are visible: use 0 to {}", index, devices.size(),
           devices.size() - 1);
  const CudaDeviceInfo& info = devices[static_cast<size_t>(index)];
  validate(info.major >= least_major, ExitCode::failed,
           "{} has compute capability {}.{}, and this program needs {}.0: use another GPU, or --device cpu",
           info.name, info.major, info.minor, least_major);
  return std::make_unique<CudaDevice>(info, options);
}

std::string why_own_attention(Device& device, const AttentionShape& shape) {
  return dynamic_cast<CudaDevice&>(device).ops().why_own_attention(shape);
}

}  // namespace gpt
