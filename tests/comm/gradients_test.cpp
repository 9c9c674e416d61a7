#include "base/philox.hpp"
#include "comm/comm.hpp"
#include "comm/layouts.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "train/reducer.hpp"
#include "train/step_scalars.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace gpt;

namespace {

constexpr int64_t global_batch = 11;  // divides by none of the rank counts

const GptConfig config{
    .layers = 2, .heads = 2, .width = 24, .context = 19, .vocabulary = 131, .bias = true, .dropout = 0.1F};

/// Gradients, norm and loss of the first step's batch on the ranks of `comm`, in micro-batches of
/// `micro_batch`.
struct FirstStep {
  std::vector<float> gradients;
  double grad_norm = 0.0;
  double loss_sum = 0.0;
  bool accepted = false;
  double own_loss = 0.0, own_squares = 0.0;
};

/// Puts a NaN among the gradients of one rank's vectors before they are summed.
class Spoiler : public SectionListener {
public:
  Spoiler(SectionListener& next, Tensor vectors, bool spoils)
      : next_(next), vectors_(vectors), spoils_(spoils) {}
  void before_use(int64_t section) override { next_.before_use(section); }
  void after_gradients(int64_t section) override {
    if (spoils_) *vectors_.data<float>() = std::nanf("");
    next_.after_gradients(section);
  }

private:
  SectionListener& next_;
  Tensor vectors_;
  bool spoils_;
};

FirstStep first_step(Comm& comm, int64_t micro_batch, double bucket_mb, int spoiled = -1) {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const Layout layout(config);
  const TensorBuffer params(*device, DType::f32, {layout.size()});
  const TensorBuffer gradients(*device, DType::f32, {layout.size()});
  initialize_weights(layout, config, 3, params);
  Gpt model(config, *device, micro_batch, parameters_in(layout, params, gradients));
  Reducer reducer(layout, comm, *device, gradients, static_cast<int64_t>(bucket_mb * 0x1p20));
  Spoiler listener(reducer, gradients->flat(layout.vectors()), comm.rank() == spoiled);
  StepScalars scalars(*device);
  scalars.reset(*queue);

  std::vector<int32_t> tokens(static_cast<size_t>(global_batch * (config.context + 1)));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random_bits(9, i) % static_cast<uint64_t>(config.vocabulary));
  const Tensor inputs(tokens.data(), DType::i32, {global_batch, config.context});
  const Tensor targets(tokens.data() + global_batch, DType::i32, {global_batch, config.context});

  const Range mine = part_of(global_batch, comm.size(), comm.rank());
  MicroStep micro{.scale = 1.0F / static_cast<float>(inputs.size()), .dropout_seed = 5, .step = 0};
  for (int64_t first = mine.begin; first < mine.end; first += micro_batch) {
    const Range part{first, std::min(first + micro_batch, mine.end)};
    reducer.begin_micro(part.end == mine.end, *queue);
    model.train({.inputs = inputs.slice(part), .targets = targets.slice(part), .first_sequence = first},
                scalars.device().flat({0, 1}), micro, listener, *queue);
    micro.write = Write::accumulate;
  }
  reducer.finish(scalars.device(), {.clip = 1.0}, *queue);
  scalars.send(1, *queue);
  const StepScalars::Values values = *scalars.receive(true);
  const float* const first = gradients->data<float>();
  return {.gradients = {first, first + layout.size()},
          .grad_norm = values.grad_norm,
          .loss_sum = values.loss_sum,
          .accepted = values.accepted,
          .own_loss = values.own_loss,
          .own_squares = values.own_squares};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - double{b[i]}) * (a[i] - double{b[i]});
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("the first step's reduced gradients are those of one rank to 1e-5 of their norm") {
  int argc = 0;
  char** argv = nullptr;
  World world(argc, argv);
  world.set_layout({});
  const FirstStep alone = first_step(*make_mpi_comm(MPI_COMM_SELF), global_batch, 25.0);
  CHECK(std::isfinite(alone.grad_norm));
  CHECK(alone.grad_norm > 0.01);

  const auto agrees = [&](Comm& comm, int64_t micro_batch, double bucket_mb) {
    INFO(comm.name(), ", micro-batch ", micro_batch, ", buckets of ", bucket_mb, " MiB");
    const FirstStep here = first_step(comm, micro_batch, bucket_mb);
    CHECK(distance(here.gradients, alone.gradients) < 1e-5 * alone.grad_norm);
    CHECK(here.grad_norm == doctest::Approx(alone.grad_norm).epsilon(1e-5));
    CHECK(here.loss_sum == doctest::Approx(alone.loss_sum).epsilon(1e-6));
  };
  agrees(*make_mpi_comm(world.world()), global_batch, 25.0);
  agrees(*make_mpi_comm(world.world()), 2,
         0.0);  // accumulation with a ragged tail; a bucket for every section
  for (const std::string& layout : test::layouts_for(world.size())) {
    World pretended(argc, argv);
    pretended.set_layout({layout});
    agrees(*make_hierarchical_comm(pretended), 3, 0.1);
  }
}

TEST_CASE("of gradients that are not finite it is known whose they were before the sum") {
  int argc = 0;
  char** argv = nullptr;
  World world(argc, argv);
  world.set_layout({});
  const auto comm = make_mpi_comm(world.world());
  for (int spoiled = -1; spoiled < world.size(); ++spoiled) {
    CAPTURE(spoiled);
    const FirstStep step = first_step(*comm, 2, 0.02, spoiled);
    CHECK(step.accepted == (spoiled < 0));
    CHECK(std::isfinite(step.grad_norm) == (spoiled < 0));
    CHECK(std::isfinite(step.own_loss));
    if (world.size() == 1) continue;  // nothing is summed, and the norm tells
    CHECK(std::isfinite(step.own_squares) == (spoiled != world.rank()));
    if (spoiled != world.rank()) CHECK(step.own_squares > 0);
  }
}
