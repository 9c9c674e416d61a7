#include "train/step_clock.hpp"

#include "base/contracts.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace gpt {
namespace {

/// Between two looks at a device. The step behind the one that is waited for is already given to it: that
/// this host hears a little late keeps no device waiting.
void pause(int64_t looks) {
  constexpr int64_t eager = 1000;
  if (looks < eager)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

StepClock::StepClock(Device& device, Watchdog& watchdog) : device_(device), watchdog_(watchdog) {
  for (Step& step : steps_) step.whole = make_span();
}

StepClock::Span StepClock::make_span() const {
  return {.begin = device_.make_timed_event(), .end = device_.make_timed_event()};
}

StepClock::Step& StepClock::at(int64_t step) {
  Step& found = steps_[static_cast<size_t>(step) % steps_.size()];
  expects(found.number == step);
  return found;
}

void StepClock::begin(int64_t step, Queue& compute) {
  now_ = &steps_[static_cast<size_t>(step) % steps_.size()];
  now_->number = step;
  now_->given = now_->passed = 0;
  now_->data = 0.0;
  compute.record(*now_->whole.begin);
}

void StepClock::end(Queue& compute) {
  compute.record(*now_->whole.end);
  now_ = nullptr;
}

void StepClock::wait(Queue& compute, Event& event) {
  const Watchdog::Waiting waiting(watchdog_);  // where work runs as it is given, the host waits here
  if (now_ == nullptr) return compute.wait(event);
  if (now_->given == now_->waits.size()) now_->waits.push_back(make_span());
  const Span& span = now_->waits[now_->given++];
  compute.record(*span.begin);
  compute.wait(event);
  compute.record(*span.end);
}

void StepClock::begin_operation(Queue& communication) {
  if (now_ == nullptr) return;
  if (spare_.empty()) spare_.push_back(make_span());
  operations_.push_back({.step = now_->number, .span = std::move(spare_.back())});
  spare_.pop_back();
  communication.record(*operations_.back().span.begin);
}

void StepClock::end_operation(Queue& communication) {
  if (now_ != nullptr) communication.record(*operations_.back().span.end);
}

bool StepClock::stands_in_wait(int64_t step) {
  Step& asked = at(step);
  while (asked.passed < asked.given && asked.waits[asked.passed].end->reached()) ++asked.passed;
  return asked.passed < asked.given && asked.waits[asked.passed].begin->reached();
}

void StepClock::wait_for(int64_t step) {
  const Step& awaited = at(step);
  Watchdog::Waiting waiting(watchdog_, false);
  for (int64_t looks = 0; !awaited.whole.end->reached(); ++looks) {
    waiting.set(stands_in_wait(step));
    pause(looks);
  }
}

StepTimes StepClock::times(int64_t step) {
  const Step& taken = at(step);
  StepTimes times;
  times.data = taken.data;
  for (size_t i = 0; i < taken.given; ++i) times.wait += taken.waits[i].seconds();
  times.compute = taken.whole.seconds() - times.wait;
  while (!operations_.empty()) {
    Operation& first = operations_.front();
    if (first.step > step || !first.span.end->reached()) break;
    times.reduce += first.span.seconds();
    spare_.push_back(std::move(first.span));
    operations_.pop_front();
  }
  return times;
}

}  // namespace gpt
