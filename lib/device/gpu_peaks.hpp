#pragma once

#include "device/dtype.hpp"

#include <optional>
#include <string_view>

namespace gpt {

/// Dense floating-point operations a second of matrix products, each multiply-add two, summed in fp32: what
/// no product can exceed.
struct GpuPeaks {
  double bf16 = 0.0;  ///< tensor cores
  double tf32 = 0.0;  ///< tensor cores, operands of fp32 with 10 bits of mantissa
  double f32 = 0.0;   ///< what is no tensor core's

  /// For products of that type, f32 or bf16. @param cuts  operands to TF32 where they are f32
  double flops(DType operands, bool cuts) const {
    if (operands == DType::bf16) return bf16;
    return cuts ? tf32 : f32;
  }
};

/// As NVIDIA documents it. Nothing for GPUs that are not known here, and for parts of one (MIG).
/// @param name  as CUDA and nvidia-smi have it: "NVIDIA H100 80GB HBM3"
std::optional<GpuPeaks> documented_peaks(std::string_view name);

}  // namespace gpt
