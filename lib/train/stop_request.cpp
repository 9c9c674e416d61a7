#include "train/stop_request.hpp"

#include "base/signals.hpp"

#include <vector>

namespace gpt {

bool StopRequest::is_there(double saving) const {
  if (stop_signal() != 0) return true;
  // What a rank says is heard a step later.
  return world_.is_root() && time_limit_.reached(2 * longest_step_ + longest_evaluation_, saving);
}

std::string StopRequest::reason() const {
  const std::vector<std::string> signals =
      world_.gather(stop_signal() != 0 ? signal_name(stop_signal()) : "");
  for (size_t rank = 0; rank < signals.size(); ++rank)
    if (!signals[rank].empty()) return fmt::format("{} came to rank {}", signals[rank], rank);
  return time_limit_.reason();
}

}  // namespace gpt
