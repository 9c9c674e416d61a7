#include "train/plan.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// Of `number`, not above `limit`.
int64_t largest_divisor(int64_t number, int64_t limit) {
  int64_t divisor = std::min(number, limit);
  while (number % divisor != 0) --divisor;
  return divisor;
}

void validate_batch(const TrainOptions& options, int64_t lanes, int ranks) {
  const int64_t batch = options.global_batch;
  const int64_t lower = batch / lanes * lanes, upper = round_up(batch, lanes);
  const std::string nearest =
      lower > 0 && lower != upper ? fmt::format("{} or {}", lower, upper) : fmt::format("{}", upper);
  validate(
      batch % lanes == 0,
      "--global-batch {} is not a multiple of the dataset's {} training shards: use {}, or cut it anew with "
      "'gpt_data reshard --data FOLDER --out NEW --shards {}'",
      batch, lanes, nearest, largest_divisor(batch, lanes));
  validate(batch >= ranks, "--global-batch {} is smaller than the {} ranks: use {} or more, or fewer ranks",
           batch, ranks, round_up(ranks, lanes));
}

int64_t count_leaves(const TrainOptions& options) {
  return ceil_div(options.global_batch, options.micro_batch);
}

void validate_leaves(const TrainOptions& options, int ranks) {
  const int64_t leaves = count_leaves(options);
  validate(leaves >= ranks,
           "--reduction tree: the {} sequences of --global-batch make {} leaves of --micro-batch {}, fewer "
           "than the {} ranks: use --micro-batch {} or less (other bits than with {}), or fewer ranks",
           options.global_batch, leaves, options.micro_batch, ranks, options.global_batch / ranks,
           options.micro_batch);
}

}  // namespace

std::vector<Range> leaves_of_ranks(const TrainOptions& options, int ranks) {
  std::vector<Range> leaves;
  for (int rank = 0; rank < ranks; ++rank) leaves.push_back(part_of(count_leaves(options), ranks, rank));
  return leaves;
}

Plan make_plan(const TrainOptions& options, const Dataset& dataset, const TrainState& done, int rank,
               int ranks) {
  Plan plan;
  plan.lanes = static_cast<int64_t>(dataset.manifest().train.size());
  validate_batch(options, plan.lanes, ranks);

  const int64_t context = options.model.context;
  plan.windows_per_lane = dataset.windows_per_shard(Split::train, context);
  if (plan.windows_per_lane == 0) {
    const auto shortest = std::ranges::min(dataset.manifest().train, {}, &ShardInfo::tokens);
    throw Error(
        fmt::format("dataset {}: shard {} has {} tokens, a window of --context {} needs {}: use a smaller "
                    "--context, fewer shards ('gpt_data reshard'), or more text",
                    dataset.folder(), shortest.file, shortest.tokens, context, context + 1),
        ExitCode::usage);
  }
  plan.windows_per_step = options.global_batch / plan.lanes;
  plan.tokens_per_step = options.global_batch * context;
  plan.steps = options.steps;
  if (options.epochs > 0.0) {
    // 0.29 epochs of 100 windows are 29 of them, though 0.29 * 100 is a little less than that.
    constexpr double rounding = 1e-9;
    const auto windows =
        static_cast<int64_t>(options.epochs * static_cast<double>(plan.windows_per_lane) * (1.0 + rounding));
    plan.steps = done.step + std::max<int64_t>(0, windows - done.cursor) / plan.windows_per_step;
  }

  if (options.reduction == "tree") {
    validate_leaves(options, ranks);
    plan.all_leaves = count_leaves(options);
    plan.leaves = leaves_of_ranks(options, ranks)[static_cast<size_t>(rank)];
    plan.sequences = {plan.leaves.begin * options.micro_batch,
                      std::min(plan.leaves.end * options.micro_batch, options.global_batch)};
  } else {
    plan.sequences = part_of(options.global_batch, ranks, rank);
  }
  plan.shards = {plan.sequences.begin / plan.windows_per_step,
                 ceil_div(plan.sequences.end, plan.windows_per_step)};
  plan.micro_batch = std::min(options.micro_batch, plan.sequences.size());
  return plan;
}

}  // namespace gpt
