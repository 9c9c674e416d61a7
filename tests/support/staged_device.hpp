#pragma once

#include "device/device.hpp"

#include <memory>

namespace gpt::test {

/// How tensors lie in the memory of the device that they are brought to.
enum class Placement {
  aligned,
  /// One element off: no kernel may load several at once.
  odd
};

/// A device of its own memory for tests whose tensors are host memory: each operation brings its tensors to
/// the device and back, with sentinels around each of them there.
///
/// Its memory is the host's, its queues and events are the inner device's. Operations are done when they
/// return. @throws Error from an operation that has written beside a tensor
std::unique_ptr<Device> make_staged_device(std::unique_ptr<Device> inner, Placement placement);

}  // namespace gpt::test
