#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpt {
namespace {

constexpr double decay_share = 0.2;  // of all steps, at the end of a wsd schedule

/// Large batches bear larger steps: linear (Goyal et al. 2017), square root (Malladi et al. 2022, for Adam).
double batch_scale(const TrainOptions& options) {
  const double ratio = static_cast<double>(options.global_batch) / static_cast<double>(options.base_batch);
  if (options.lr_scaling == "linear") return ratio;
  if (options.lr_scaling == "sqrt") return std::sqrt(ratio);
  return 1.0;
}

}  // namespace

Schedule::Schedule(const TrainOptions& options, int64_t steps)
    : shape_(options.schedule == "constant" ? Shape::constant
             : options.schedule == "linear" ? Shape::linear
             : options.schedule == "wsd"    ? Shape::wsd
                                            : Shape::cosine),
      peak_(options.lr * batch_scale(options)),
      least_((options.min_lr < 0.0 ? options.lr / 10.0 : options.min_lr) * batch_scale(options)),
      warmup_(options.warmup),
      steps_(steps) {}

double Schedule::learning_rate(int64_t step) const {
  if (step < warmup_) return peak_ * static_cast<double>(step + 1) / static_cast<double>(warmup_ + 1);
  const auto progress_since = [&](int64_t start) {
    const auto length = static_cast<double>(std::max<int64_t>(1, steps_ - start));
    return std::clamp(static_cast<double>(step - start) / length, 0.0, 1.0);
  };
  switch (shape_) {
    case Shape::constant:
      return peak_;
    case Shape::linear:
      return peak_ + (least_ - peak_) * progress_since(warmup_);
    case Shape::wsd: {
      const auto decay_start = steps_ - static_cast<int64_t>(decay_share * static_cast<double>(steps_));
      return peak_ + (least_ - peak_) * progress_since(std::max(warmup_, decay_start));
    }
    case Shape::cosine:
      break;
  }
  return least_ + (peak_ - least_) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress_since(warmup_)));
}

}  // namespace gpt
