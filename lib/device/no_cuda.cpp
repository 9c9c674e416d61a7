#include "base/error.hpp"
#include "device/cuda_device.hpp"
#include "device/gpu_reader.hpp"
#include "device/queue_timer.hpp"

namespace gpt {

bool has_cuda() { return false; }

std::vector<CudaDeviceInfo> visible_cuda_devices() { return {}; }

int64_t free_cuda_memory(int) { throw Error(why_no_cuda_device()); }

std::string why_no_cuda_device() {
  return "this build has no CUDA: configure with -DGPT_CUDA=ON, or use --device cpu";
}

bool has_cudnn_attention() { return false; }

std::string why_no_cudnn_attention() {
  return "this build has no CUDA, and so no cuDNN: configure with -DGPT_CUDA=ON -DGPT_CUDNN=ON, or use "
         "--attention own";
}

std::string cuda_version() { return {}; }

std::string cudnn_version() { return {}; }

std::unique_ptr<Device> make_cuda_device(int, const CudaOptions&) { throw Error(why_no_cuda_device()); }

std::string why_own_attention(Device&, const AttentionShape&) { throw Error(why_no_cuda_device()); }

std::unique_ptr<QueueTimer> make_cuda_timer(int) { throw Error(why_no_cuda_device()); }

std::unique_ptr<GpuReader> make_gpu_reader(const std::string&, const std::string&) {
  throw Error(why_no_cuda_device());
}

}  // namespace gpt
