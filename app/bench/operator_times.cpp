#include "bench/operator_times.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <utility>

namespace gpt {

double StepProfile::seconds() const {
  double all = between;
  for (const OperatorTime& time : operators) all += time.seconds;
  return all;
}

StepProfile least_of(const StepProfile& a, const StepProfile& b) {
  expects(a.operators.size() == b.operators.size());
  StepProfile least = a;
  least.between = std::min(a.between, b.between);
  for (size_t i = 0; i < least.operators.size(); ++i) {
    OperatorTime& time = least.operators[i];
    expects(time.name == b.operators[i].name && time.calls == b.operators[i].calls);
    time.seconds = std::min(time.seconds, b.operators[i].seconds);
  }
  return least;
}

void OperatorTimes::start() {
  all_.clear();
  collects_ = true;
}

StepProfile OperatorTimes::stop(double seconds) {
  collects_ = false;
  if (timer_) {
    const std::vector<double> spans = timer_->seconds();
    for (size_t i = 0; i < spans.size(); ++i) add(under_way_[i], spans[i]);
    under_way_.clear();
  }
  StepProfile profile{.operators = std::exchange(all_, {})};
  profile.between = std::max(seconds - profile.seconds(), 0.0);
  return profile;
}

void OperatorTimes::add(const Operation& operation, double seconds) {
  auto found = std::ranges::find(all_, operation.name, &OperatorTime::name);
  if (found == all_.end()) {
    const Work kind{.limit = operation.work.limit, .operands = operation.work.operands};
    found = all_.insert(all_.end(), OperatorTime{.name = operation.name, .work = kind});
  }
  expects(found->work.limit == operation.work.limit && found->work.operands == operation.work.operands);
  ++found->calls;
  found->seconds += seconds;
  found->work.flops += operation.work.flops;
  found->work.bytes += operation.work.bytes;
}

}  // namespace gpt
