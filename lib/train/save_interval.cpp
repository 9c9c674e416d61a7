#include "train/save_interval.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

/// The mean of lately: what is older counts less and less.
double mean_of_late(double before, double now, double weight) { return before + weight * (now - before); }

}  // namespace

double daly_interval(double cost, double mtbf) {
  expects(cost > 0 && mtbf > 0);
  const double share = cost / (2 * mtbf);
  if (share >= 1) return mtbf;
  return std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(share) / 3 + share / 9) - cost;
}

void SaveInterval::took_step(double seconds, bool beside) {
  constexpr double weight = 1.0 / 16;
  if (!beside)
    usual_step_ = usual_step_ == 0 ? seconds : mean_of_late(usual_step_, seconds, weight);
  else if (usual_step_ > 0)
    delay_ += seconds - usual_step_;
}

void SaveInterval::took_save(double stall, double whole) {
  constexpr double weight = 0.5, least = 1e-6;
  const double cost = std::max(least, stall + std::max(0.0, delay_));
  cost_ = saves_ == 0 ? cost : mean_of_late(cost_, cost, weight);
  longest_ = std::max(longest_, whole);
  delay_ = 0.0;
  ++saves_;
}

double SaveInterval::seconds() const {
  constexpr double early = 0.1;  // of the time between failures
  if (saves_ == 0) return std::min(first, early * mtbf_);
  return std::max(longest_, std::min(most, daly_interval(cost_, mtbf_)));
}

}  // namespace gpt
