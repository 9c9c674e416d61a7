#include "train/evaluator.hpp"

#include "base/error.hpp"
#include "comm/shared_error.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace gpt {

void validate_evaluation(const Dataset& dataset, int64_t context) {
  int64_t tokens = 0;
  for (const ShardInfo& shard : dataset.manifest().val) tokens += shard.tokens;
  validate(dataset.windows_per_shard(Split::val, context) > 0,
           "dataset {}: its validation part has {} tokens, a window of --context {} needs {}: use a smaller "
           "--context, pack with a larger --val-fraction, or switch evaluation off with --eval-every 0",
           dataset.folder(), tokens, context, context + 1);
}

Evaluator::Evaluator(Dataset& dataset, int64_t context, int64_t windows, int64_t micro_batch, Device& device,
                     int rank, int ranks)
    : dataset_(dataset),
      context_(context),
      windows_per_shard_(dataset.windows_per_shard(Split::val, context)),
      all_windows_(windows_per_shard_ * static_cast<int64_t>(dataset.manifest().val.size())),
      windows_(windows == 0 ? all_windows_ : std::min(windows, all_windows_)),
      mine_(part_of(windows_, ranks, rank)),
      micro_batch_(std::max<int64_t>(1, std::min(micro_batch, mine_.size()))),
      inputs_(device, DType::i32, {micro_batch_, context}),
      targets_(device, DType::i32, {micro_batch_, context}),
      loss_sum_(device, DType::f64, {1}) {
  validate_evaluation(dataset, context);
  if (mine_.empty()) return;
  dataset.open(Split::val, {stored_index(mine_.begin) / windows_per_shard_,
                            stored_index(mine_.end - 1) / windows_per_shard_ + 1});
}

int64_t Evaluator::stored_index(int64_t window) const {
  return part_of(all_windows_, windows_, window).begin;
}

double Evaluator::mean_loss(Gpt& model, SectionListener& listener, Comm& comm, Queue& queue,
                            Watchdog& watchdog) const {
  std::vector<Token> window(static_cast<size_t>(context_) + 1);
  std::vector<Token> inputs(static_cast<size_t>(micro_batch_ * context_)), targets(inputs.size());
  queue.zero(loss_sum_);
  for (int64_t first = mine_.begin; first < mine_.end; first += micro_batch_) {
    const int64_t count = std::min(micro_batch_, mine_.end - first);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = stored_index(first + i);
      dataset_.read_window(Split::val, index / windows_per_shard_, index % windows_per_shard_, window);
      std::copy(window.begin(), window.end() - 1, inputs.begin() + i * context_);
      std::copy(window.begin() + 1, window.end(), targets.begin() + i * context_);
    }
    const Tensor device_inputs = inputs_->slice({0, count}), device_targets = targets_->slice({0, count});
    queue.copy(device_inputs, Tensor(inputs.data(), DType::i32, {count, context_}));
    queue.copy(device_targets, Tensor(targets.data(), DType::i32, {count, context_}));
    model.evaluate({.inputs = device_inputs, .targets = device_targets}, loss_sum_, listener, queue);
    queue.synchronize();  // the host's token arrays are filled anew
    watchdog.tick();
  }
  const Watchdog::Waiting waiting(watchdog);
  comm.all_reduce(loss_sum_, loss_sum_, queue);
  double sum = 0.0;
  queue.copy(Tensor(&sum, DType::f64, {1}), loss_sum_);
  queue.synchronize();
  const double loss = sum / static_cast<double>(windows_ * context_);
  if (!std::isfinite(loss))
    throw SharedError(
        fmt::format("the validation loss is {}: these weights compute nothing any more. Go on from an "
                    "earlier checkpoint with a lower --lr or --clip",
                    loss),
        ExitCode::bad_numbers);
  return loss;
}

}  // namespace gpt
