#include "bench/operator_bounds.hpp"
#include "bench/timed_ops.hpp"
#include "model/gpt.hpp"

#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gpt {
namespace {

const GptConfig small{.layers = 2, .heads = 2, .width = 8, .context = 4, .vocabulary = 10};
constexpr int64_t sequences = 3;
constexpr int64_t rows = 12;

/// Forward and backward of the small model, every operation of it timed.
class SmallStep {
public:
  StepProfile operator()(Write write) {
    SectionListener nobody;
    times_.start();
    model_.train({.inputs = tokens_, .targets = tokens_}, loss_, {.write = write}, nobody, *queue_);
    return times_.stop(1.0);
  }

private:
  OperatorTimes times_;
  TimedDevice device_{make_cpu_device(1), times_};
  std::unique_ptr<Queue> queue_ = device_.make_queue();
  Layout layout_{small};
  TensorBuffer params_{device_, DType::f32, {layout_.size()}};
  TensorBuffer gradients_{device_, DType::f32, {layout_.size()}};
  TensorBuffer tokens_{device_, DType::i32, {sequences, small.context}};
  TensorBuffer loss_{device_, DType::f64, {1}};
  Gpt model_{small, device_, sequences, parameters_in(layout_, params_, gradients_)};
};

std::map<std::string, OperatorTime> by_name(const StepProfile& profile) {
  std::map<std::string, OperatorTime> found;
  for (const OperatorTime& time : profile.operators) CHECK(found.emplace(time.name, time).second);
  return found;
}

}  // namespace

TEST_CASE("a step's products are counted, the causal half of attention and twice as much in backward") {
  SmallStep step;
  const auto found = by_name(step(Write::overwrite));
  struct Expected {
    std::string name;
    int64_t calls;
    double flops, floats;  // of all calls
  };
  std::vector<Expected> expected{
      {"attention", 2, 2 * 768, 2 * (96 + 288)},  // 2 products · 12 rows · 8 columns · 4 keys
      {"attention backward", 2, 2 * 1536, 2 * (2 * 288 + 2 * 96)},
      {"classifier and its backward", 1, 3 * 2 * rows * 10 * 8, 2 * 96 + 2 * 128 * 8}};
  struct Matrix {
    std::string shape;
    int64_t in, out;
    bool has_gelu;
  };
  for (const Matrix& w : {Matrix{"8 x 24", 8, 24, false}, Matrix{"8 x 8", 8, 8, false},
                          Matrix{"8 x 32", 8, 32, true}, Matrix{"32 x 8", 32, 8, false}}) {
    const auto flops = static_cast<double>(2 * 2 * rows * w.in * w.out);
    const auto floats = static_cast<double>(2 * (rows * (w.in + w.out) + w.in * w.out));
    const double before_gelu = 2 * rows * 32;
    expected.push_back({"linear " + w.shape, 2, flops, floats + (w.has_gelu ? before_gelu : 0)});
    expected.push_back(
        {"linear backward to input " + w.shape, 2, flops, floats + (w.in == 32 ? before_gelu : 0)});
    expected.push_back({"linear backward to weight " + w.shape, 2, flops, floats});
  }
  double all = 0.0;
  for (const Expected& one : expected) {
    CAPTURE(one.name);
    REQUIRE(found.contains(one.name));
    const OperatorTime& time = found.at(one.name);
    CHECK(time.calls == one.calls);
    CHECK(time.work.limit == Limit::arithmetic);
    CHECK(time.work.operands == DType::f32);
    CHECK(time.work.flops == one.flops);
    CHECK(time.work.bytes == 4 * one.floats);
    CHECK(time.seconds > 0.0);
    all += one.flops;
  }
  // 6·N·D + 6·L·C·T·D, N the elements of matrices
  CHECK(all == 6 * (2 * 12 * 8 * 8 + 10 * 8) * rows + 6 * 2 * 8 * 4 * rows);
  double counted = 0.0;
  for (const auto& [name, time] : found) {
    counted += time.work.flops;
    CHECK(time.work.bytes > 0.0);
  }
  CHECK(counted == all);
}

TEST_CASE("bytes of what has no products are those of its operands") {
  SmallStep step;
  const auto first = by_name(step(Write::overwrite)), second = by_name(step(Write::accumulate));
  // The first of 5 norms has nothing to add, and the backward of all but the last adds to the residual
  // stream.
  CHECK(first.at("add and norm").calls == 5);
  CHECK(first.at("add and norm").work.bytes == 4 * 96 * (2 + 4 * 4));
  CHECK(first.at("add and norm backward").work.bytes == 4 * 96 * (3 + 4 * 4));
  CHECK(first.at("embed").work.bytes == 4 * (rows + 3 * 96));
  CHECK(first.at("embed backward").work.bytes == 4 * (rows + 3 * 96 + 4 * 8));
  for (const char* name : {"add and norm", "add and norm backward", "embed", "embed backward"})
    CHECK(first.at(name).work.limit == Limit::traffic);

  // Gradients that are added to are read, too.
  const auto more = [&](const char* name) { return second.at(name).work.bytes - first.at(name).work.bytes; };
  CHECK(more("linear backward to weight 8 x 32") == 4 * 2 * 8 * 32);
  CHECK(more("classifier and its backward") == 4 * 128 * 8);
  CHECK(more("embed backward") == 4 * 4 * 8);
  CHECK(more("linear 8 x 32") == 0);

  OperatorTimes times;
  TimedDevice device(make_cpu_device(1), times);
  const auto queue = device.make_queue();
  const TensorBuffer p(device, DType::f32, {100}), m(device, DType::f32, {100}), v(device, DType::f32, {100}),
      g(device, DType::f32, {100}), half(device, DType::bf16, {100}),
      scalars(device, DType::f64, {static_cast<int64_t>(StepScalar::count)});
  times.start();
  device.ops().adamw(p, half, m, v, g, scalars, {}, *queue);
  device.ops().adamw(p, {}, m, v, g, scalars, {}, *queue);
  const StepProfile profile = times.stop(1.0);
  REQUIRE(profile.operators.size() == 1);
  CHECK(profile.operators.front().work.limit == Limit::memory);
  CHECK(profile.operators.front().work.bytes == 2 * 7 * 400 + 200);  // p, m, v go both ways
}

TEST_CASE("operations are timed between start and stop only") {
  OperatorTimes times;
  const auto queue = make_cpu_device(1)->make_queue();
  int done = 0;
  const auto run = [&](const char* name, double bytes) {
    times.measure([&] { return Operation{name, {.bytes = bytes}}; }, *queue, [&] { ++done; });
  };
  run("a", 1);
  times.start();
  run("b", 2);
  run("c", 3);
  run("b", 4);
  const StepProfile profile = times.stop(1.0);
  run("d", 5);
  CHECK(done == 5);
  REQUIRE(profile.operators.size() == 2);
  CHECK(profile.operators[0].name == "b");
  CHECK(profile.operators[0].calls == 2);
  CHECK(profile.operators[0].work.bytes == 6);
  CHECK(profile.operators[1].name == "c");
  CHECK(profile.between == doctest::Approx(1.0).epsilon(0.01));
  times.start();
  CHECK(times.stop(0.0).operators.empty());
}

TEST_CASE("a device's own clock times operations without a wait between them") {
  class Clock final : public QueueTimer {
  public:
    explicit Clock(std::string& calls) : calls_(calls) {}
    void begin(Queue&) override { calls_ += "("; }
    void end(Queue&) override { calls_ += ")"; }
    std::vector<double> seconds() override { return {1.0, 2.0, 4.0}; }

  private:
    std::string& calls_;
  };
  std::string calls;
  OperatorTimes times(std::make_unique<Clock>(calls));
  const auto queue = make_cpu_device(1)->make_queue();
  const auto run = [&](const char* name) {
    times.measure([&] { return Operation{name, {.bytes = 8}}; }, *queue, [&] { calls += name; });
  };
  run("x");
  for (int step = 0; step < 2; ++step) {  // what one step left must not count in the next
    times.start();
    for (const char* name : {"a", "b", "a"}) run(name);
    const StepProfile profile = times.stop(10.0);
    REQUIRE(profile.operators.size() == 2);
    CHECK(profile.operators[0].name == "a");
    CHECK(profile.operators[0].calls == 2);
    CHECK(profile.operators[0].seconds == 5.0);
    CHECK(profile.operators[0].work.bytes == 16);
    CHECK(profile.operators[1].seconds == 2.0);
    CHECK(profile.between == 3.0);
  }
  CHECK(calls == "x(a)(b)(a)(a)(b)(a)");
}

TEST_CASE("a step's bound is its products at the peak of their type and the optimizer's bytes") {
  const Peaks peaks{.f32_flops = 100, .bf16_flops = 200, .bytes = 10};
  const auto time = [](const char* name, double seconds, Work work) {
    return OperatorTime{.name = name, .calls = 1, .seconds = seconds, .work = work};
  };
  const StepProfile profile{
      .operators = {time("f32", 8, {.limit = Limit::arithmetic, .flops = 400, .bytes = 1000}),
                    time("bf16", 4,
                         {.limit = Limit::arithmetic, .flops = 400, .operands = DType::bf16, .bytes = 1}),
                    time("norm", 10, {.bytes = 50}), time("AdamW", 5, {.limit = Limit::memory, .bytes = 30})},
      .between = 3};
  const std::vector<double> bounds{4, 2, 5, 3};
  for (size_t i = 0; i < bounds.size(); ++i) CHECK(bound_of(profile.operators[i].work, peaks) == bounds[i]);
  const StepBound bound = bound_of_step(profile, peaks);
  CHECK(bound.product_flops == 800);
  CHECK(bound.product_seconds == 6);
  CHECK(bound.optimizer_bytes == 30);
  CHECK(bound.optimizer_seconds == 3);
  CHECK(bound.seconds() == 9);
  CHECK(profile.seconds() == 30);
  StepProfile other = profile;
  other.operators[0].seconds = 9;
  other.operators[2].seconds = 1;
  other.between = 2;
  for (const StepProfile& least : {least_of(profile, other), least_of(other, profile)}) {
    CHECK(least.operators[0].seconds == 8);
    CHECK(least.operators[2].seconds == 1);
    CHECK(least.seconds() == 20);
  }

  const Peaks best = best_of(peaks, {.f32_flops = 90, .bf16_flops = 210, .bytes = 11});
  CHECK(best.f32_flops == 100);
  CHECK(best.bf16_flops == 210);
  CHECK(best.bytes == 11);
}

}  // namespace gpt
