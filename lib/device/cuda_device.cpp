#include "device/cuda_device.hpp"

#include <fmt/format.h>

namespace gpt {

std::string CudaDeviceInfo::uuid_text() const {
  std::string text = "GPU";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", std::to_integer<int>(uuid[i]));
  }
  return text;
}

}  // namespace gpt
