#pragma once

#include "comm/world.hpp"
#include "train/time_limit.hpp"

#include <algorithm>
#include <string>

namespace gpt {

/// Whether a run is asked to stop before its end: by a signal, or because its time is nearly over.
class StopRequest {
public:
  /// @param limit  seconds, as TimeLimit takes them
  StopRequest(const World& world, double limit) : world_(world), time_limit_(limit) {}

  void took_step(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  void took_evaluation(double seconds) { longest_evaluation_ = std::max(longest_evaluation_, seconds); }

  /// Whether this rank has one; of the time only the root speaks. @param saving  seconds until one more save
  /// would be over
  bool is_there(double saving) const;

  /// Why the ranks stop, for people, with the first rank that a signal reached. Collective.
  std::string reason() const;

private:
  const World& world_;
  const TimeLimit time_limit_;
  double longest_step_ = 0.0, longest_evaluation_ = 0.0;  // seconds
};

}  // namespace gpt
