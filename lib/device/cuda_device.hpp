#pragma once

#include "device/device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// One GPU, as this process sees it.
struct CudaDeviceInfo {
  int index = 0;  ///< among the visible ones
  std::string name;
  std::array<std::byte, 16> uuid{};  ///< the same in every process and container that sees this GPU
  int64_t memory = 0;                ///< bytes
  int major = 0, minor = 0;          ///< compute capability

  /// "GPU-8b6c…", as nvidia-smi -L prints it.
  std::string uuid_text() const;
};

/// Whether this build has the CUDA backend at all.
bool has_cuda();

/// The GPUs that this process sees; none without a GPU, without its driver, or in a build without CUDA.
std::vector<CudaDeviceInfo> visible_cuda_devices();

/// Bytes of that GPU's memory that nobody has by now; this process's own context is made for the question.
int64_t free_cuda_memory(int index);

/// Why there is none: a sentence for people, with what to do.
std::string why_no_cuda_device();

/// Whether this build can compute attention by cuDNN.
bool has_cudnn_attention();

/// Why it cannot: a sentence for people, with what to do.
std::string why_no_cudnn_attention();

/// "compiled 13.0, loaded 13.0, driver 13.0": CUDA's runtime and driver; empty in a build without CUDA.
std::string cuda_version();

/// "compiled 9.19.0, loaded 9.19.0, frontend 1.32.0": cuDNN; empty in a build without it.
std::string cudnn_version();

struct CudaOptions {
  /// f32 matrix products on tensor cores, with the operands' last 13 bits left out.
  bool tf32 = false;
  /// GELU where the matrix product is, before its results are rounded and without reading them again. Then
  /// Ops::activate need not give the bits that Ops::linear gave.
  bool fused_gelu = false;
  /// Attention of training by cuDNN's fused kernels, where they can (why_own_attention).
  bool cudnn_attention = false;
  /// What our own attention may take for scores and the like, in bytes a queue; a single head may need more.
  int64_t attention_scratch = int64_t{512} << 20;
};

/// A GPU of compute capability 8.0 or higher, whose operations do not wait for the host, nor the host for
/// them. @throws Error if there is no such GPU, or if this build has no CUDA, or no cuDNN that is asked for
std::unique_ptr<Device> make_cuda_device(int index, const CudaOptions& options = {});

/// Attention of a step.
struct AttentionShape {
  int64_t sequences = 1;  ///< at a time
  int64_t context = 1;
  int64_t width = 1;
  int64_t heads = 1;
  DType type = DType::f32;  ///< of activations
  float dropout = 0.0F;     ///< rate
};

/// Why a device of make_cuda_device computes such attention, or a pass of it, by our own kernels: a reason
/// for people; empty if cuDNN computes it all. What cuDNN needs for it is made now, and not in a step.
std::string why_own_attention(Device& device, const AttentionShape& shape);

}  // namespace gpt
