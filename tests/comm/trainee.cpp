#include "comm/trainee.hpp"

#include "base/philox.hpp"

#include <algorithm>

namespace gpt::test {
namespace {

TrainOptions optimizer_options() {
  TrainOptions options;
  options.weight_decay = 0.1;
  return options;
}

int64_t bucket_bytes(const TraineeOptions& options) {
  return static_cast<int64_t>(options.bucket_mb * 0x1p20);
}

std::vector<float> floats_of(Tensor tensor) {
  if (tensor.dtype() == DType::f32) return {tensor.data<float>(), tensor.data<float>() + tensor.size()};
  const bfloat16* const first = tensor.data<bfloat16>();
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(static_cast<float>(first[i]));
  return values;
}

Range leaves_of(const Comm& comm, int64_t micro_batch) {
  return Trainee::leaves_of_ranks(comm.size(), micro_batch)[static_cast<size_t>(comm.rank())];
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
      options_(options),
      layout_(config()),
      device_(make_cpu_device(1)),
      queue_(device_->make_queue()),
      weights_(options.sharded
                   ? Weights(layout_, *device_, owned_parts(Buckets(layout_, bucket_bytes(options)), comm),
                             ReadWeights(layout_, options.type, *device_))
                   : Weights(layout_, *device_, options.type)),
      gradients_(*device_, DType::f32, {layout_.size()}),
      model_(config(), *device_, options.micro_batch, weights_.with(gradients_)),
      reducer_(layout_, comm, *device_, gradients_, bucket_bytes(options),
               options.sharded ? &weights_ : nullptr,
               !options.leaves ? nullptr
                               : &tree_.emplace(*device_, gradients_, leaves_of(comm, options.micro_batch),
                                                ceil_div(global_batch, options.micro_batch))),
      optimizer_(layout_, *device_, weights_, gradients_, optimizer_options(), reducer_.parts()),
      scalars_(*device_),
      mine_(part_of(global_batch, comm.size(), comm.rank())) {
  if (tree_) {
    const Range leaves = leaves_of(comm, options.micro_batch);
    mine_ = {leaves.begin * options.micro_batch, std::min(leaves.end * options.micro_batch, global_batch)};
  }
  if (options.checkpoint.empty())
    set_initial_weights(weights_, layout_, config(), 3, *queue_);
  else
    load_device_state(options.checkpoint, layout_, state(), *queue_);
  weights_.round(*queue_);
  if (weights_.is_divided()) reducer_.spread_params(*queue_);
  tokens_.resize(static_cast<size_t>(global_batch * (config().context + 1)));
  for (size_t i = 0; i < tokens_.size(); ++i)
    tokens_[i] = static_cast<int32_t>(random_bits(9, i) % static_cast<uint64_t>(config().vocabulary));
}

std::vector<DeviceState> Trainee::state() const {
  std::vector<DeviceState> states = {weights_.state()};
  for (DeviceState& moments : optimizer_.state()) states.push_back(std::move(moments));
  return states;
}

void Trainee::train(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) step();
}

void Trainee::step() {
  const Tensor inputs(tokens_.data(), DType::i32, {global_batch, config().context});
  const Tensor targets(tokens_.data() + global_batch, DType::i32, {global_batch, config().context});
  scalars_.reset(*queue_);
  MicroStep micro{.scale = 1.0F / static_cast<float>(inputs.size()),
                  .dropout_seed = 5,
                  .step = static_cast<uint32_t>(step_)};
  for (int64_t first = mine_.begin; first < mine_.end; first += options_.micro_batch) {
    const Range part{first, std::min(first + options_.micro_batch, mine_.end)};
    micro.write = reducer_.begin_micro(part.end == mine_.end, *queue_);
    model_.train({.inputs = inputs.slice(part), .targets = targets.slice(part), .first_sequence = first},
                 reducer_.loss_of_micro(scalars_.device()), micro, reducer_, *queue_);
  }
  reducer_.finish(scalars_.device(), 0.5, *queue_);
  reducer_.update(
      [&](const std::vector<Range>& ranges) {
        optimizer_.step(step_, 1e-2, scalars_.device(), ranges, *queue_);
      },
      *queue_);
  scalars_.send(++step_, *queue_);
  const StepScalars::Values values = *scalars_.receive(true);
  losses_.push_back(values.loss_sum);
  norms_.push_back(values.grad_norm);
}

SavedParts Trainee::saved_parts() {
  reducer_.wait_for_params();
  return {state(), layout_, reducer_.buckets(), comm_, *device_, *queue_};
}

Outcome Trainee::outcome() {
  const SavedParts saved = saved_parts();
  const FlatParameters read = weights_.with({});
  Outcome result{.losses = losses_, .norms = norms_, .weights = floats_of(read.matrices), .parts = {}};
  const std::vector<float> vectors = floats_of(read.vectors);
  result.weights.insert(result.weights.end(), vectors.begin(), vectors.end());
  for (const StateTensor& part : saved.state())
    result.parts.emplace_back(part.data.data<float>(), part.data.data<float>() + part.data.size());
  return result;
}

}  // namespace gpt::test
