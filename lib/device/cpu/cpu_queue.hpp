#pragma once

#include "device/queue.hpp"

namespace gpt {

/// Every task is done when the call that gives it returns, so events have nothing to carry.
class CpuEvent : public Event {
public:
  void synchronize() override {}
};

class CpuQueue : public Queue {
public:
  explicit CpuQueue(int threads) : threads_(threads) {}

  void copy(Tensor dst, Tensor src) override;
  void zero(Tensor dst) override;
  void host(std::function<void()> task) override { task(); }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}

private:
  int threads_;
};

}  // namespace gpt
