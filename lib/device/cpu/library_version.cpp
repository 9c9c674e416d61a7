#include "device/device.hpp"

#include <dnnl.hpp>
#include <fmt/format.h>

namespace gpt {

std::string math_library_version() {
  const dnnl::version_t* const loaded = dnnl::version();
  return fmt::format("compiled {}.{}.{}, loaded {}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR,
                     DNNL_VERSION_PATCH, loaded->major, loaded->minor, loaded->patch);
}

}  // namespace gpt
