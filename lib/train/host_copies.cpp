#include "train/host_copies.hpp"

namespace gpt {

HostCopies::HostCopies(const std::vector<NamedTensor>& tensors) : tensors_(tensors) {
  for (const NamedTensor& tensor : tensors_) {
    memory_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(tensor.data.size())));
    state_.push_back({tensor.name, Tensor(memory_.back().get(), DType::f32, {tensor.data.size()})});
  }
}

void HostCopies::fetch(Queue& queue) {
  for (size_t i = 0; i < tensors_.size(); ++i) queue.copy(state_[i].data, tensors_[i].data);
  queue.synchronize();
}

void HostCopies::store(Queue& queue) {
  for (size_t i = 0; i < tensors_.size(); ++i) queue.copy(tensors_[i].data, state_[i].data);
  queue.synchronize();
}

}  // namespace gpt
