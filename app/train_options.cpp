#include "train_options.hpp"

#include "base/error.hpp"
#include "data/file_io.hpp"
#include "option_values.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>
#include <type_traits>
#include <variant>
#include <vector>

namespace gpt {
namespace {

namespace po = boost::program_options;

constexpr int64_t largest_config = int64_t{1} << 20;  // bytes

/// One option: where it is told, what it sets, and what --help says.
struct Entry {
  const char* group;
  const char* name;
  std::variant<std::string*, int64_t*, uint64_t*, double*, float*, bool*> field;
  std::string help;
  /// run: what is trained, taken over from a checkpoint. machine: where and how, not taken over. once: asked
  /// of one start alone, not kept in config.ini either.
  enum class Scope { run, machine, once } scope = Scope::run;
  const char* word = nullptr;  // of a whole number from 0 on: stands for TrainOptions::by_cost
};

std::vector<Entry> entries(TrainOptions& o) {
  const char* const run = "Run";
  const char* const model = "Model";
  const char* const batch = "Batch";
  const char* const optimizer = "Optimizer";
  const char* const logs = "Evaluation, checkpoints, logs";
  const char* const guard = "Bad steps";
  const char* const machine = "Machine";
  return {
      {run, "data", &o.data, "dataset folder, made by gpt_data"},
      {run, "out", &o.out, "run folder: config.ini, log.jsonl, checkpoints/", Entry::Scope::machine},
      {run, "resume", &o.resume, "auto: the newest valid checkpoint in --out, if any; none; or a file",
       Entry::Scope::once},
      {run, "seed", &o.seed, "of weights, data order and dropout"},
      {run, "steps", &o.steps, "optimizer steps of the whole run"},
      {run, "epochs", &o.epochs, "passes over the data instead of --steps, when above 0"},
      {run, "eval-only", &o.eval_only, "only print a checkpoint's validation loss", Entry::Scope::once},

      {model, "preset", &o.preset, preset_names() + "; the options below refine it"},
      {model, "layers", &o.model.layers, "transformer blocks"},
      {model, "heads", &o.model.heads, "attention heads"},
      {model, "width", &o.model.width, "channels; a multiple of --heads"},
      {model, "context", &o.model.context, "positions a sequence"},
      {model, "vocab", &o.model.vocabulary, "tokens; 0: the dataset's; may be larger"},
      {model, "bias", &o.model.bias, "biases in linear layers and norms"},
      {model, "dropout", &o.model.dropout, "share of activations dropped"},

      {batch, "global-batch", &o.global_batch, "sequences a step over all ranks; a multiple of the shards"},
      {batch, "micro-batch", &o.micro_batch, "sequences that a rank computes at a time, at most"},

      {optimizer, "lr", &o.lr, "highest learning rate"},
      {optimizer, "min-lr", &o.min_lr, "lowest, at the end; below 0: a tenth of --lr"},
      {optimizer, "warmup", &o.warmup, "steps of linear warm-up"},
      {optimizer, "schedule", &o.schedule, "constant, cosine, linear, wsd (down in the last fifth)"},
      {optimizer, "lr-scaling", &o.lr_scaling, "by --global-batch / --base-batch: none, linear, sqrt"},
      {optimizer, "base-batch", &o.base_batch, "batch that --lr is meant for, with --lr-scaling"},
      {optimizer, "weight-decay", &o.weight_decay, "of matrices"},
      {optimizer, "beta1", &o.beta1, "AdamW: decay of the first moment"},
      {optimizer, "beta2", &o.beta2, "AdamW: decay of the second moment"},
      {optimizer, "eps", &o.eps, "AdamW: added to the root of the second moment"},
      {optimizer, "clip", &o.clip, "largest global norm of the gradients; 0: no clipping"},

      {logs, "eval-every", &o.eval_every, "steps between validations; 0: never"},
      {logs, "eval-windows", &o.eval_windows, "validation windows, evenly spaced; 0: all"},
      {logs, "save-every", &o.save_every,
       "steps between checkpoints, and one at the end; 0: none at all; auto: by their cost and --mtbf",
       Entry::Scope::run, "auto"},
      {logs, "mtbf", &o.mtbf, "time between failures of the whole job, as 12h, for --save-every auto",
       Entry::Scope::machine},
      {logs, "keep", &o.keep, "newest checkpoints that are kept"},
      {logs, "keep-every", &o.keep_every, "and all whose step is a multiple of it; 0: no others"},
      {logs, "save", &o.save, "async: training goes on while a checkpoint is written; sync: it waits",
       Entry::Scope::machine},
      {logs, "verify-saves", &o.verify_saves, "read each checkpoint back before older ones are deleted",
       Entry::Scope::machine},
      {logs, "save-failures", &o.save_failures, "saves that may fail in a row: the last of them ends the run",
       Entry::Scope::machine},
      {logs, "check-replicas", &o.check_replicas,
       "steps between comparisons of the ranks' weights, also before each save; 0: never",
       Entry::Scope::machine},
      {logs, "memory-every", &o.memory_every,
       "steps between checkpoints in the memory of every node, beside those on disk; 0: none"},
      {logs, "memory-folder", &o.memory_folder, "memory file system (tmpfs) of every node for them",
       Entry::Scope::machine},
      {logs, "log-every", &o.log_every, "steps between printed lines; 0: none. log.jsonl has every step"},
      {logs, "sample-tokens", &o.sample_tokens, "length of the sample printed at the end; 0: none"},

      {guard, "on-bad-step", &o.on_bad_step,
       "a step with bad numbers is never taken; then: stop; skip (go on); rollback (go on from the last "
       "checkpoint, without that step's data)"},
      {guard, "spike-z", &o.spike_z,
       "bad is also a loss or gradient norm so many robust deviations above its median; 0: is not"},
      {guard, "max-bad-steps", &o.max_bad_steps,
       "skipped in a row, or rollbacks of one start, before the run ends"},

      {machine, "device", &o.device,
       "auto (GPUs where every rank has one of its own, else the CPU), cpu, cuda", Entry::Scope::machine},
      {machine, "threads", &o.threads, "a rank; 0: its share of the cores it may use", Entry::Scope::machine},
      {machine, "precision", &o.precision, "activations and what matrix products read: fp32, bf16"},
      {machine, "rounding", &o.rounding,
       "of weights, from fp32 to the bf16 of products: nearest, stochastic"},
      {machine, "tf32", &o.tf32, "on a GPU, fp32 matrix products on tensor cores, with 10 bits of mantissa"},
      {machine, "attention", &o.attention,
       "on a GPU: own; cudnn (cuDNN's kernels: with --precision bf16, without dropout)"},
      {machine, "reduction", &o.reduction,
       "of gradients: auto (measured); flat; hierarchical (in the node, then between); tree (same bits "
       "on any number of ranks)"},
      {machine, "inter", &o.inter,
       "hierarchical, between nodes: auto (measured); mpi (the library's); ring; halving; direct"},
      {machine, "wire", &o.wire, "gradients travel as: fp32; bf16; fp32,bf16 (in the node, between nodes)"},
      {machine, "zero", &o.zero, "optimizer state: 0 all on each rank; 1 divided over ranks; node: in a node",
       Entry::Scope::machine},
      {machine, "recompute", &o.recompute,
       "in backward, instead of keeping it: none; attention (with norms and GELU); block (whole blocks)",
       Entry::Scope::machine},
      {machine, "memory-check", &o.memory_check,
       "when memory will not suffice: refuse to start; warn, and start all the same", Entry::Scope::machine},
      {machine, "time-limit", &o.time_limit,
       "seconds after the start by which the run has saved and stopped; 0: by the end of the Slurm job",
       Entry::Scope::machine},
      {machine, "timeout", &o.timeout, "seconds without progress that end the job; 0: never",
       Entry::Scope::machine},
      {machine, "bucket-mb", &o.bucket_mb,
       "MiB of gradients reduced at a time, at least; 0: each section alone"},
      {machine, "slow-node", &o.slow_node,
       "--preflight names nodes so many times slower than the median; 0: none", Entry::Scope::once},
      {machine, "node-layout", &o.node_layout, "pretend nodes: '3,1' ranks a node; '@0,1,0,1' a node a rank",
       Entry::Scope::machine},
  };
}

// Boost only splits the words; what they mean is said once, in the table above.
po::options_description describe(bool with_config) {
  TrainOptions defaults;
  po::options_description description;
  for (const Entry& entry : entries(defaults))
    description.add_options()(entry.name, po::value<std::string>());
  if (with_config)
    description.add_options()("config", po::value<std::string>(), "")("help", po::bool_switch(), "")(
        "version", po::bool_switch(), "")("preflight", po::bool_switch(), "");
  return description;
}

template <class Number>
void assign_number(const Entry& entry, const std::string& text, Number& target) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, target);
  validate(error == std::errc() && parsed == end, "--{} {}: use {}", entry.name, text,
           std::is_floating_point_v<Number> ? "a number"
           : std::is_unsigned_v<Number>     ? "a whole number from 0 to 2^64 - 1"
                                            : "a whole number that fits into 64 bits");
}

/// Those with a word have no other negative values.
void assign_count(const Entry& entry, const std::string& text, int64_t& target) {
  if (text == entry.word) {
    target = TrainOptions::by_cost;
    return;
  }
  assign_number(entry, text, target);
  validate(target >= 0, "--{} {}: use a whole number from 0 on, or {}", entry.name, text, entry.word);
}

void assign(const Entry& entry, const std::string& text) {
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, std::string>) {
          *target = text;
        } else if constexpr (std::is_same_v<T, bool>) {
          validate(text == "true" || text == "false", "--{} {}: use true or false", entry.name, text);
          *target = text == "true";
        } else if constexpr (std::is_same_v<T, int64_t>) {
          if (entry.word != nullptr)
            assign_count(entry, text, *target);
          else
            assign_number(entry, text, *target);
        } else {
          assign_number(entry, text, *target);
        }
      },
      entry.field);
}

std::string value_text(const Entry& entry) {
  if (const auto* count = std::get_if<int64_t*>(&entry.field);
      entry.word != nullptr && count != nullptr && **count == TrainOptions::by_cost)
    return entry.word;
  return std::visit([](const auto* value) { return fmt::format("{}", *value); }, entry.field);
}

void apply_preset(const std::string& name, GptConfig& model) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  validate(found != presets().end(), "--preset {}: use {}", name, preset_names());
  const int64_t vocabulary = model.vocabulary;
  model = found->config;
  model.vocabulary = vocabulary;
}

enum class Layer { stored, given };

void apply_layer(const std::string& ini, Layer layer, const std::string& where, TrainOptions& options) {
  std::istringstream text(ini);
  po::variables_map values;
  try {
    po::store(po::parse_config_file(text, describe(false)), values);
  } catch (const po::error& error) {
    throw Error(fmt::format("{}: {}; 'gpt_mpi --help' lists the options", where, error.what()),
                ExitCode::usage);
  }
  if (values.contains("steps")) options.epochs = 0.0;  // the length that is given last counts
  if (values.contains("preset")) apply_preset(values["preset"].as<std::string>(), options.model);
  for (const Entry& entry : entries(options))
    if (values.contains(entry.name) && (layer == Layer::given || entry.scope == Entry::Scope::run))
      assign(entry, values[entry.name].as<std::string>());
  validate(!values.contains("steps") || options.epochs == 0.0, "--steps and --epochs: give one of them");
}

std::string to_line(const std::string& name, const std::string& value) {
  constexpr std::string_view blanks = " \t\v\f\r\n";
  const bool blank_ends = !value.empty() && (blanks.find(value.front()) != std::string_view::npos ||
                                             blanks.find(value.back()) != std::string_view::npos);
  validate(value.find_first_of("#\n\r") == std::string::npos && !blank_ends && is_utf8(value),
           "--{} '{}': a configuration cannot hold '#', line breaks, blanks at an end or bytes that are not "
           "UTF-8; use "
           "another name",
           name, value);
  return fmt::format("{} = {}\n", name, value);
}

}  // namespace

TypedOptions parse_command_line(int argc, const char* const* argv) {
  // Without short options a value may begin with '-', as negative numbers do.
  constexpr int style = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                        po::command_line_style::long_allow_next;
  check_values_follow({argv + std::min(argc, 1), argv + argc}, describe(true));
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(describe(true)).style(style).positional({}).run(),
              values);
  } catch (const po::too_many_positional_options_error&) {
    throw Error("every argument is an option with a value, as in --steps 100; 'gpt_mpi --help' lists them",
                ExitCode::usage);
  } catch (const po::error& error) {
    throw Error(fmt::format("{}; 'gpt_mpi --help' lists the options", error.what()), ExitCode::usage);
  }
  TypedOptions line{.help = values["help"].as<bool>(),
                    .version = values["version"].as<bool>(),
                    .preflight = values["preflight"].as<bool>(),
                    .typed = {},
                    .config = {},
                    .config_file = {}};
  if (values.contains("config")) {
    line.config_file = values["config"].as<std::string>();
    validate(std::filesystem::exists(line.config_file), "--config {}: there is no such file",
             line.config_file);
    line.config = read_small_file(line.config_file, largest_config);
  }
  TrainOptions defaults;
  for (const Entry& entry : entries(defaults))
    if (values.contains(entry.name)) line.typed += to_line(entry.name, values[entry.name].as<std::string>());
  return line;
}

TrainOptions layered_options(const TypedOptions& line, const std::string& stored) {
  TrainOptions options;
  apply_layer(stored, Layer::stored, "configuration in the checkpoint", options);
  apply_layer(line.config, Layer::given, "--config " + line.config_file, options);
  apply_layer(line.typed, Layer::given, "command line", options);
  return options;
}

std::string to_ini(TrainOptions options) {
  std::string text;
  for (const Entry& entry : entries(options)) {
    const bool replaced = options.epochs > 0.0 && std::string_view(entry.name) == "steps";
    if (entry.scope != Entry::Scope::once && !replaced) text += to_line(entry.name, value_text(entry));
  }
  return text;
}

std::string help_text() {
  TrainOptions defaults;
  std::string text =
      "gpt_mpi trains a GPT on the shards of a dataset, on every rank that it is started on.\n"
      "\n"
      "  ./gpt_mpi --data datasets/demo --out runs/demo --steps 1000\n"
      "  tools/mpirun.sh 4 ./gpt_mpi --data datasets/demo --out runs/demo\n"
      "  srun --nodes=4 --ntasks-per-node=8 --mpi=pmix ./gpt_mpi --config run.ini\n"
      "\n"
      "Options are read from the checkpoint that is resumed, then from --config, then from the\n"
      "command line; the last one counts. Every option takes a value but these three:\n"
      "--preflight, --help, --version.\n"
      "\n"
      "  --config FILE         options as lines 'name = value'\n"
      "  --preflight           check the nodes for such a run, in seconds; train nothing, write nothing\n"
      "  --help, --version\n";
  std::string group;
  for (const Entry& entry : entries(defaults)) {
    if (group != entry.group) text += fmt::format("\n{}:\n", group = entry.group);
    const std::string value = value_text(entry);
    text += fmt::format("  --{:<18} {} [{}]\n", entry.name, entry.help, value.empty() ? "empty" : value);
  }
  return text;
}

}  // namespace gpt
