#pragma once

#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/checkpoint.hpp"

#include <string>
#include <vector>

namespace gpt {

/// A flat tensor of the device by the name under which checkpoints hold it.
struct NamedTensor {
  std::string name;
  Tensor data;  ///< f32, Layout::size()
};

/// Host copies of flat device tensors: what save_checkpoint and load_state work on.
class HostCopies {
public:
  explicit HostCopies(const std::vector<NamedTensor>& tensors);

  /// Copies all tensors from the device; returns when that is done.
  void fetch(Queue& queue);
  /// Copies all tensors to the device; returns when that is done.
  void store(Queue& queue);

  const std::vector<StateTensor>& state() const { return state_; }

private:
  std::vector<NamedTensor> tensors_;
  std::vector<std::unique_ptr<float[]>> memory_;
  std::vector<StateTensor> state_;
};

}  // namespace gpt
