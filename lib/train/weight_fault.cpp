#include "train/weight_fault.hpp"

#include <array>
#include <cstddef>

namespace gpt {

void flip_weight_bit(const Weights& weights, Queue& queue) {
  const Range first{0, 1};
  const Tensor target = weights.is_divided() ? weights.read(first) : weights.master(first);
  alignas(float) std::array<std::byte, sizeof(float)> number{};
  const Tensor host(number.data(), target.dtype(), {1});
  queue.copy(host, target);
  queue.synchronize();
  number.front() ^= std::byte{0x10};  // of the mantissa, in either type
  queue.copy(target, host);
  queue.synchronize();
}

}  // namespace gpt
