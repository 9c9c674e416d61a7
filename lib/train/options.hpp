#pragma once

#include "device/weight_rounding.hpp"
#include "model/config.hpp"
#include "model/precision.hpp"

#include <cstdint>
#include <string>

namespace gpt {

/// Everything a training run is told. Names and defaults are those of the options of `gpt_mpi`
/// (docs/options.md); app/ fills it in.
struct TrainOptions {
  // Data and run
  std::string data = "datasets/demo";
  std::string out = "runs/default";
  std::string resume = "auto";  ///< auto, none, or a checkpoint file
  uint64_t seed = 1337;

  // Model; vocabulary 0: the dataset's
  std::string preset = "mini";
  GptConfig model = default_model();

  // Batch and length
  int64_t global_batch = 32;  ///< sequences a step, whatever the ranks
  int64_t micro_batch = 16;   ///< sequences that a rank holds at a time, at most
  int64_t steps = 1000;
  double epochs = 0.0;  ///< instead of steps, when above 0

  // Optimizer
  double lr = 1e-3;
  double min_lr = -1.0;  ///< below 0: a tenth of lr
  int64_t warmup = 100;
  std::string schedule = "cosine";
  std::string lr_scaling = "none";
  int64_t base_batch = 32;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip = 1.0;  ///< 0: no clipping

  // Evaluation, saving, logging; 0: never
  int64_t eval_every = 250;
  int64_t eval_windows = 200;  ///< 0: all
  static constexpr int64_t by_cost = -1;
  int64_t save_every = 250;  ///< by_cost: by what saves cost, and mtbf
  std::string mtbf = "24h";  ///< mean time between failures of the job (parse_duration)
  int64_t keep = 3;
  int64_t keep_every = 0;      ///< steps whose multiples are kept for ever; 0: none
  std::string save = "async";  ///< async, sync: whether training goes on while a checkpoint is written
  bool verify_saves = true;
  int64_t save_failures = 3;  ///< in a row, that end the run
  int64_t memory_every = 0;   ///< between checkpoints in the memory of the nodes
  std::string memory_folder = "/dev/shm";
  int64_t log_every = 10;
  int64_t sample_tokens = 200;
  bool eval_only = false;
  int64_t check_replicas = 0;  ///< steps between comparisons of the ranks' weights; 0: never

  // Bad steps
  std::string on_bad_step = "stop";
  double spike_z = 0.0;        ///< 0: only what is not finite is bad
  int64_t max_bad_steps = 10;  ///< skipped in a row, or rollbacks of one start

  // Machine
  int64_t threads = 0;               ///< 0: this rank's share of the cores it may use
  std::string precision = "fp32";    ///< fp32, bf16: activations and what matrix products read
  std::string rounding = "nearest";  ///< nearest, stochastic: of f32 weights to the bf16 that products read
  bool tf32 = false;                 ///< of a GPU: f32 products may cut their operands
  std::string attention = "own";     ///< of a GPU: own; cudnn, where it can
  std::string device = "auto";
  std::string reduction = "auto";
  std::string inter = "auto";
  std::string wire = "fp32";
  std::string zero = "0";
  std::string recompute = "none";
  std::string memory_check = "refuse";
  double time_limit = 0.0;  ///< seconds after its start by which it stops; 0: the end of the batch job
  double timeout = 300.0;   ///< seconds without progress until the job is ended; 0: never
  double slow_node = 4.0;   ///< times the median's time, of --preflight; 0: none is too slow
  std::string node_layout;
  double bucket_mb = 4.0;

  bool saves() const { return save_every != 0; }
  /// On disk, and in memory: each is copied by itself.
  int64_t kinds_of_saves() const { return int64_t{saves()} + int64_t{memory_every > 0}; }
  bool cudnn_attention() const { return attention == "cudnn"; }
  DType matrix_type() const { return precision_named(precision); }
  /// Of the weights before any update.
  WeightRounding weight_rounding() const {
    return {.stochastic = rounds_stochastically(rounding, matrix_type()), .seed = seed};
  }
  int64_t bucket_bytes() const { return static_cast<int64_t>(bucket_mb * 0x1p20); }

private:
  static GptConfig default_model();
};

/// Checks every value that can be judged without looking at anything else.
/// @throws Error(usage) with the option's name, its value and what is allowed
void validate_options(const TrainOptions& options);

}  // namespace gpt
