#pragma once

#include "device/gpu_status.hpp"

#include <memory>
#include <string>

namespace gpt {

/// Asks the driver of one GPU. A call may take milliseconds, and as long as the driver likes.
class GpuReader {
public:
  virtual ~GpuReader() = default;
  virtual GpuStatus read() = 0;
  /// Names of the fields that could not be had so far, with commas; empty if there are none.
  virtual std::string missing() const = 0;
};

/// NVIDIA's management library (NVML), which comes with the driver.
inline constexpr const char* nvml_library = "libnvidia-ml.so.1";

/// Reads through NVML, which is loaded now: no program is linked with it.
/// @param uuid     "GPU-8b6c…": processes and containers number GPUs in ways of their own
/// @param library  looked for as dlopen does it: in LD_LIBRARY_PATH, then in the system's folders
/// @throws Error if the library cannot be loaded or does not know that GPU, or in a build without CUDA
std::unique_ptr<GpuReader> make_gpu_reader(const std::string& uuid,
                                           const std::string& library = nvml_library);

}  // namespace gpt
