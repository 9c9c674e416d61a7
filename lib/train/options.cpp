#include "train/options.hpp"

#include "base/error.hpp"
#include "comm/comm_plan.hpp"
#include "model/recompute.hpp"
#include "train/device_choice.hpp"
#include "train/duration.hpp"
#include "train/guard.hpp"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t largest_count = int64_t{1} << 40;

void validate_count(const char* option, int64_t value, int64_t least) {
  validate(value >= least && value <= largest_count, "--{} {}: use a whole number from {} to {}", option,
           value, least, largest_count);
}

void validate_number(const char* option, double value, double least, double below) {
  validate(std::isfinite(value) && value >= least && value < below,
           "--{} {}: use a number from {} to below {}", option, value, least, below);
}

/// AdamW computes in f32, where numbers below the least normal one are 0.
void validate_adamw(const TrainOptions& options) {
  for (const auto& [option, beta] : {std::pair("beta1", options.beta1), std::pair("beta2", options.beta2)}) {
    validate_number(option, beta, 0.0, 1.0);
    validate(static_cast<float>(beta) < 1.0F, "--{} {}: that is 1 in fp32: use at most 0.9999999", option,
             beta);
  }
  constexpr float least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
  validate(options.eps >= least && options.eps <= most, "--eps {}: use a number from {} to {}", options.eps,
           least, most);
}

void validate_choice(const char* option, std::string_view value,
                     const std::vector<std::string_view>& choices) {
  for (std::string_view choice : choices)
    if (value == choice) return;
  throw Error(fmt::format("--{} {}: use {}", option, value, fmt::join(choices, ", ")), ExitCode::usage);
}

/// What only some ways of summing can do.
void validate_sums(const TrainOptions& options) {
  const Wire wire = wire_named(options.wire);
  if (options.eval_only) return;  // no gradients are summed
  const bool rounds = wire.node == DType::bf16 || wire.peers == DType::bf16;
  validate(!rounds || options.reduction == "auto" || options.reduction == "hierarchical",
           "--wire {} with --reduction {}: only hierarchical sums (or auto) travel as bf16", options.wire,
           options.reduction);
  validate(options.zero != "node" || options.reduction == "auto" || options.reduction == "hierarchical",
           "--zero node with --reduction {}: only hierarchical sums (or auto) know nodes", options.reduction);
}

}  // namespace

GptConfig TrainOptions::default_model() {
  GptConfig model = presets().front().config;
  model.vocabulary = 0;
  return model;
}

void validate_options(const TrainOptions& options) {
  GptConfig model = options.model;
  validate(model.vocabulary >= 0, "--vocab {}: use 0 (the dataset's) or a positive number", model.vocabulary);
  if (model.vocabulary == 0) model.vocabulary = 1;
  validate_config(model);

  constexpr double infinity = std::numeric_limits<double>::infinity();
  // The batch is also an exponent of memory: far more sequences than any job holds are a typing mistake.
  validate(options.global_batch >= 1 && options.global_batch <= int64_t{1} << 24,
           "--global-batch {}: use a whole number from 1 to {}", options.global_batch, int64_t{1} << 24);
  validate(options.micro_batch >= 1 && options.micro_batch <= int64_t{1} << 24,
           "--micro-batch {}: use a whole number from 1 to {}", options.micro_batch, int64_t{1} << 24);
  validate_count("steps", options.steps, 0);
  validate_number("epochs", options.epochs, 0.0, 1e9);
  validate_number("lr", options.lr, 0.0, 1e6);
  validate(std::isfinite(options.min_lr) && options.min_lr <= options.lr,
           "--min-lr {}: use a number up to --lr {}, or a negative one for a tenth of it", options.min_lr,
           options.lr);
  validate_count("warmup", options.warmup, 0);
  validate_choice("schedule", options.schedule, {"constant", "cosine", "linear", "wsd"});
  validate_choice("lr-scaling", options.lr_scaling, {"none", "linear", "sqrt"});
  validate_count("base-batch", options.base_batch, 1);
  validate_number("weight-decay", options.weight_decay, 0.0, 1e3);
  validate_adamw(options);
  validate_number("clip", options.clip, 0.0, infinity);
  validate_count("eval-every", options.eval_every, 0);
  validate_count("eval-windows", options.eval_windows, 0);
  if (options.save_every != TrainOptions::by_cost) validate_count("save-every", options.save_every, 0);
  validate(parse_duration(options.mtbf).value_or(0) >= 1 && *parse_duration(options.mtbf) <= 1e10,
           "--mtbf {}: use a time from 1 second on, as 3600, 90m, 12h or 7d", options.mtbf);
  validate_count("check-replicas", options.check_replicas, 0);
  validate_count("keep", options.keep, 1);
  validate_count("keep-every", options.keep_every, 0);
  validate_count("save-failures", options.save_failures, 1);
  validate_count("memory-every", options.memory_every, 0);
  validate(options.memory_every == 0 || options.saves(),
           "--memory-every {} with --save-every 0: checkpoints in memory stand between those on disk; give "
           "--save-every, too",
           options.memory_every);
  validate(options.memory_folder.starts_with('/'),
           "--memory-folder '{}': name it from the root on, as /dev/shm", options.memory_folder);
  on_bad_step_named(options.on_bad_step);
  validate_count("max-bad-steps", options.max_bad_steps, 1);
  validate(options.spike_z == 0 || (options.spike_z >= 3 && options.spike_z <= 1e6),
           "--spike-z {}: use 0 (off) or a number from 3 on", options.spike_z);
  validate(options.save == "async" || options.save == "sync", "--save {}: use one of async, sync",
           options.save);
  validate_count("log-every", options.log_every, 0);
  validate_count("sample-tokens", options.sample_tokens, 0);
  rounds_stochastically(options.rounding, precision_named(options.precision));
  validate_device(options.device);
  validate_attention(options.attention, options.device);
  validate_choice("reduction", options.reduction, {"auto", "flat", "hierarchical", "tree"});
  std::vector<std::string_view> inters = inter_names();
  inters.insert(inters.begin(), "auto");
  validate_choice("inter", options.inter, inters);
  validate_choice("zero", options.zero, {"0", "1", "node"});
  validate_sums(options);
  recompute_named(options.recompute);
  validate_choice("memory-check", options.memory_check, {"refuse", "warn"});
  validate_number("timeout", options.timeout, 0.0, 1e6);
  validate(options.time_limit >= 0 && options.time_limit <= 1e9,
           "--time-limit {}: use a number of seconds from 0 to 1e9", options.time_limit);
  validate(options.timeout == 0 || options.timeout >= 1,
           "--timeout {}: use at least 1 second, since less ends healthy jobs; 0 never ends one",
           options.timeout);
  validate(options.slow_node == 0 || (options.slow_node >= 1.5 && options.slow_node <= 1e6),
           "--slow-node {}: use 0 (off) or a number from 1.5 on", options.slow_node);
  validate_number("bucket-mb", options.bucket_mb, 0.0, 1e6);
  validate(!options.data.empty(), "--data: name a dataset's folder");
  validate(!options.out.empty(), "--out: name a folder for the run");
}

}  // namespace gpt
