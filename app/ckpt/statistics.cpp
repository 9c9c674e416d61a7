#include "ckpt/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace gpt {

void Statistics::add(std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++not_finite_;
      continue;
    }
    const double exact = value;
    least_ = finite_ == 0 ? exact : std::min(least_, exact);
    greatest_ = finite_ == 0 ? exact : std::max(greatest_, exact);
    sum_ += exact;
    squares_ += exact * exact;
    ++finite_;
  }
}

double Statistics::root_mean_square() const {
  return finite_ > 0 ? std::sqrt(squares_ / static_cast<double>(finite_)) : 0.0;
}

ParameterStatistics::ParameterStatistics(const Layout& layout) : each_(layout.all().size()) {
  for (const Parameter& parameter : layout.all())
    ranges_.push_back({parameter.offset, parameter.offset + parameter.size()});
}

void ParameterStatistics::add(Range elements, std::span<const float> values) {
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const Range part = common(ranges_[i], elements);
    if (part.empty()) continue;
    const auto piece =
        values.subspan(static_cast<size_t>(part.begin - elements.begin), static_cast<size_t>(part.size()));
    each_[i].add(piece);
    all_.add(piece);
  }
}

}  // namespace gpt
