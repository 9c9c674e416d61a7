#include "comm/trainee.hpp"

#include "base/philox.hpp"

#include <algorithm>

namespace gpt::test {
namespace {

std::vector<float> floats_of(Tensor tensor) {
  if (tensor.dtype() == DType::f32) return {tensor.data<float>(), tensor.data<float>() + tensor.size()};
  const bfloat16* const first = tensor.data<bfloat16>();
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(static_cast<float>(first[i]));
  return values;
}

/// This rank's leaves; none where there is no tree.
Range leaves_of(const Comm& comm, const TraineeOptions& options) {
  if (!options.leaves) return {};
  return Trainee::leaves_of_ranks(comm.size(), options.micro_batch)[static_cast<size_t>(comm.rank())];
}

Range sequences_of(const Comm& comm, const TraineeOptions& options) {
  if (!options.leaves) return part_of(Trainee::global_batch, comm.size(), comm.rank());
  const Range leaves = leaves_of(comm, options);
  return {leaves.begin * options.micro_batch,
          std::min(leaves.end * options.micro_batch, Trainee::global_batch)};
}

StepSettings settings_of(const Comm& comm, const TraineeOptions& options) {
  return {.model = Trainee::config(),
          .micro_batch = options.micro_batch,
          .tokens = Trainee::global_batch * Trainee::config().context,
          .dropout_seed = 5,
          .clip = 0.5,
          .optimizer = {.weight_decay = 0.1F, .rounding = {.stochastic = options.stochastic, .seed = 5}},
          .leaves = leaves_of(comm, options),
          .all_leaves = ceil_div(Trainee::global_batch, options.micro_batch)};
}

FlatBuffers buffers_of(Comm& comm, const TraineeOptions& options, const Layout& layout, Device& device,
                       Queue& queue) {
  const auto bucket_bytes = static_cast<int64_t>(options.bucket_mb * 0x1p20);
  return {device,
          comm,
          layout,
          {.type = options.type, .bucket_bytes = bucket_bytes, .sharded = options.sharded},
          [&](const Weights& weights) {
            if (options.checkpoint.empty()) set_initial_weights(weights, layout, Trainee::config(), 3, queue);
          }};
}

}  // namespace

const GptConfig& Trainee::config() {
  static const GptConfig model{
      .layers = 2, .heads = 2, .width = 24, .context = 19, .vocabulary = 131, .bias = true, .dropout = 0.1F};
  return model;
}

std::vector<Range> Trainee::leaves_of_ranks(int ranks, int64_t micro_batch) {
  std::vector<Range> leaves;
  for (int rank = 0; rank < ranks; ++rank)
    leaves.push_back(part_of(ceil_div(global_batch, micro_batch), ranks, rank));
  return leaves;
}

Trainee::Trainee(Comm& comm, const TraineeOptions& options)
    : comm_(comm),
      layout_(config()),
      device_(make_cpu_device(1)),
      queue_(device_->make_queue()),
      training_(settings_of(comm, options), layout_, *device_, comm, *queue_,
                buffers_of(comm, options, layout_, *device_, *queue_)),
      mine_(sequences_of(comm, options)),
      step_(options.step) {
  if (!options.checkpoint.empty()) load_device_state(options.checkpoint, layout_, training_.state(), *queue_);
  training_.spread_weights(step_);
  tokens_.resize(static_cast<size_t>(global_batch * (config().context + 1)));
  for (size_t i = 0; i < tokens_.size(); ++i)
    tokens_[i] = static_cast<int32_t>(random_bits(9, i) % static_cast<uint64_t>(config().vocabulary));
}

void Trainee::train(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) step();
}

void Trainee::step() {
  const Tensor inputs(tokens_.data(), DType::i32, {global_batch, config().context});
  const Tensor targets(tokens_.data() + global_batch, DType::i32, {global_batch, config().context});
  training_.backward(
      {.inputs = inputs.slice(mine_), .targets = targets.slice(mine_), .first_sequence = mine_.begin}, step_,
      training_.reducer());
  training_.finish();
  training_.update(step_++, 1e-2);
  const StepScalars::Values values = *training_.scalars().receive(true);
  losses_.push_back(values.loss_sum);
  norms_.push_back(values.grad_norm);
}

SavedParts Trainee::saved_parts() {
  training_.reducer().wait_for_params();
  SavedParts parts(training_.state(), layout_, reducer().buckets(), comm_, *device_);
  parts.take(training_.state(), *queue_);
  parts.wait();
  return parts;
}

Outcome Trainee::outcome() {
  const SavedParts saved = saved_parts();
  const FlatParameters read = weights().with({});
  Outcome result{.losses = losses_, .norms = norms_, .weights = floats_of(read.matrices), .parts = {}};
  const std::vector<float> vectors = floats_of(read.vectors);
  result.weights.insert(result.weights.end(), vectors.begin(), vectors.end());
  for (const StateTensor& part : saved.state())
    result.parts.emplace_back(part.data.data<float>(), part.data.data<float>() + part.data.size());
  return result;
}

}  // namespace gpt::test
