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
};

FirstStep first_step(Comm& comm, int64_t micro_batch, double bucket_mb) {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const Layout layout(config);
  const TensorBuffer params(*device, DType::f32, {layout.size()});
  const TensorBuffer gradients(*device, DType::f32, {layout.size()});
  initialize_weights(layout, config, 3, params);
  Gpt model(config, *device, micro_batch, parameters_in(layout, params, gradients));
  Reducer reducer(layout, comm, *device, gradients, static_cast<int64_t>(bucket_mb * 0x1p20));
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
                scalars.device().flat({0, 1}), micro, reducer, *queue);
    micro.write = Write::accumulate;
  }
  reducer.finish(scalars.device(), {.clip = 1.0}, *queue);
  scalars.send(1, *queue);
  const StepScalars::Values values = *scalars.receive(true);
  const float* const first = gradients->data<float>();
  return {.gradients = {first, first + layout.size()},
          .grad_norm = values.grad_norm,
          .loss_sum = values.loss_sum};
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
