#include "train/step_clock.hpp"

#include "train/communication_queue.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace gpt {
namespace {

using namespace std::chrono_literals;

/// Closed until it is opened: work of a queue that goes through it waits there.
class Gate {
public:
  ~Gate() { open(); }
  void open() {
    if (std::exchange(is_open_, true)) return;
    opened_.set_value();
  }
  std::function<void()> pass() {
    return [opened = passed_] { opened.wait(); };
  }

private:
  bool is_open_ = false;
  std::promise<void> opened_;
  std::shared_future<void> passed_ = opened_.get_future().share();
};

std::function<void()> work(std::chrono::milliseconds time) {
  return [time] { std::this_thread::sleep_for(time); };
}

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

/// A rank whose compute queue works behind the host's back, as a GPU's does.
struct Example {
  std::unique_ptr<Device> device = make_cpu_device(1);
  Watchdog watchdog;
  StepClock clock{*device, watchdog};
  std::unique_ptr<Event> summed = device->make_event();
  CommunicationQueue communication{*device};
  std::unique_ptr<Queue> compute = device->make_communication_queue();

  Example() { communication.measure(&clock); }

  /// A sum that takes so long, for which `compute` then waits.
  void sum(const std::function<void()>& operation) {
    communication.start(*compute, [&](Queue& queue) { queue.host(operation); });
    communication.record(*summed);
    communication.wait(*compute, *summed);
  }
};

}  // namespace

TEST_CASE("times are those of the queues, and the host waits for nothing while it gives work") {
  Example example;
  Gate gate;
  example.clock.begin(1, *example.compute);
  example.compute->host(gate.pass());
  example.compute->host(work(30ms));
  example.sum(work(200ms));
  example.compute->host(work(20ms));
  example.clock.end(*example.compute);
  example.clock.begin(2, *example.compute);
  example.compute->host(work(100ms));
  example.sum(work(10ms));
  example.clock.end(*example.compute);
  gate.open();  // nothing has run before

  example.clock.wait_for(1);
  const StepTimes first = example.clock.times(1);
  CHECK(first.compute >= 0.05);
  CHECK(first.wait >= 0.15);
  CHECK(first.wait > first.compute);
  CHECK(first.reduce >= 0.2);
  CHECK(first.data == 0.0);
  example.clock.wait_for(2);
  const StepTimes second = example.clock.times(2);
  CHECK(second.compute >= 0.1);
  CHECK(second.wait < second.compute);
  CHECK(second.reduce >= 0.01);
  CHECK(second.reduce < first.reduce);
}

TEST_CASE("who is late has computed, and who waits for it has waited, in the same time") {
  for (const bool late : {false, true}) {
    Example example;
    example.clock.begin(7, *example.compute);
    if (late) example.compute->host(work(200ms));
    example.sum(late ? work(0ms) : work(200ms));
    example.clock.end(*example.compute);
    example.clock.wait_for(7);
    const StepTimes times = example.clock.times(7);
    CHECK((late ? times.compute : times.wait) >= 0.15);
    CHECK((late ? times.wait : times.compute) < 0.1);
  }
}

TEST_CASE("a device stands in a wait from when it comes to it until the sum is there") {
  Example example;
  Gate computing, summing, updating;
  example.clock.begin(1, *example.compute);
  example.compute->host(computing.pass());
  example.sum(summing.pass());
  example.compute->host(updating.pass());
  example.clock.end(*example.compute);

  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(example.clock.stands_in_wait(1));
  computing.open();
  CHECK(comes_true([&] { return example.clock.stands_in_wait(1); }));
  summing.open();
  CHECK(comes_true([&] { return !example.clock.stands_in_wait(1); }));
  updating.open();
  example.clock.wait_for(1);
  CHECK_FALSE(example.clock.stands_in_wait(1));
}

TEST_CASE("an operation that ends after its step counts in the next") {
  Example example;
  Gate gathering;
  example.clock.begin(1, *example.compute);
  example.communication.start(*example.compute, [&](Queue& queue) {
    queue.host(gathering.pass());
    queue.host(work(50ms));
  });
  example.clock.end(*example.compute);
  example.clock.wait_for(1);
  CHECK(example.clock.times(1).reduce == 0.0);

  example.clock.begin(2, *example.compute);
  gathering.open();
  example.sum(work(20ms));
  example.clock.end(*example.compute);
  example.clock.wait_for(2);
  CHECK(example.clock.times(2).reduce >= 0.07);
}

TEST_CASE("what comes between steps is not measured") {
  Example example;
  example.sum(work(50ms));
  example.clock.begin(1, *example.compute);
  example.clock.end(*example.compute);
  example.sum(work(50ms));
  example.clock.wait_for(1);
  const StepTimes times = example.clock.times(1);
  CHECK(times.wait == 0.0);
  CHECK(times.reduce == 0.0);
}

TEST_CASE("where work runs as it is given, times are the host's") {
  Example example;
  const std::unique_ptr<Queue> compute = example.device->make_queue();
  example.clock.begin(1, *compute);
  {
    const StepClock::DataWait waiting(example.clock);
    std::this_thread::sleep_for(30ms);
  }
  CHECK(example.clock.data_seconds() >= 0.03);
  example.communication.start(*compute, [](Queue& queue) { queue.host(work(60ms)); });
  example.communication.record(*example.summed);
  example.communication.wait(*compute, *example.summed);
  example.clock.end(*compute);
  example.clock.wait_for(1);
  const StepTimes times = example.clock.times(1);
  CHECK(times.data >= 0.03);
  CHECK(times.compute >= times.data);
  CHECK(times.wait >= 0.03);
  CHECK(times.reduce >= 0.06);
}

TEST_CASE("what a queue's work throws comes out where its step is waited for") {
  Example example;
  example.clock.begin(1, *example.compute);
  example.compute->host([] { throw std::runtime_error("the device failed"); });
  example.clock.end(*example.compute);
  CHECK_THROWS_WITH(example.clock.wait_for(1), "the device failed");
}

}  // namespace gpt
