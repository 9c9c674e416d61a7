#include "comm/pace.hpp"

#include <algorithm>

namespace gpt {

void Pace::note(Duration time, int64_t moved, int64_t under_way) {
  moves_ += moved;
  // Bounded: ranks that are late with their gradients say nothing about the line.
  waited_ = std::min(waited_ + time * under_way, longest * looks_in_a_wait * moves_);
  if (moves_ < memory) return;
  moves_ /= 2;
  waited_ /= 2;
}

Pace::Duration Pace::pause() const {
  return std::clamp(waited_ / (moves_ * looks_in_a_wait), shortest, longest);
}

}  // namespace gpt
