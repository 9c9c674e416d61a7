#include "train/announcement.hpp"

#include "device/cuda_device.hpp"
#include "model/layout.hpp"
#include "train/comm_plan.hpp"
#include "train/granted_gpus.hpp"
#include "train/schedule.hpp"

#include <cstdlib>
#include <cstring>

namespace gpt {
namespace {

const char* plural(int64_t count) { return count == 1 ? "" : "s"; }

/// One line for each run of ranks that have the same to say; of many lines only the first ones.
void say_by_rank(Console& console, const World& world, const std::string& mine) {
  constexpr size_t shown = 8;
  const std::vector<std::string> all = world.gather(mine);
  size_t lines = 0;
  for (size_t first = 0; first < all.size();) {
    size_t end = first + 1;
    while (end < all.size() && all[end] == all[first]) ++end;
    if (++lines > shown) {
      console.say(fmt::format("  … and so on up to rank {}", all.size() - 1));
      return;
    }
    console.say(end - first == 1 ? fmt::format("  rank {}: {}", first, all[first])
                                 : fmt::format("  ranks {} to {}: {}", first, end - 1, all[first]));
    first = end;
  }
}

/// Of both sizes of micro-batches: "16 sequences: cuDNN; 3 sequences: own (forward: …)".
std::string attention_of_rank(const PreparedRun& run, Device& device) {
  const Plan& plan = run.plan;
  const GptConfig& model = run.options.model;
  std::string text;
  for (const int64_t sequences : {plan.micro_batch, plan.sequences.size() % plan.micro_batch}) {
    if (sequences == 0) continue;
    const std::string why = why_own_attention(device, {.sequences = sequences,
                                                       .context = model.context,
                                                       .width = model.width,
                                                       .heads = model.heads,
                                                       .type = run.options.matrix_type(),
                                                       .dropout = model.dropout});
    text += fmt::format("{}{} sequence{}: {}", text.empty() ? "" : "; ", sequences, plural(sequences),
                        why.empty() ? "cuDNN" : fmt::format("own ({})", why));
  }
  return text;
}

}  // namespace

void announce_ranks(Console& console, const World& world, const ThreadChoice& threads, const Device& device) {
  console.say(fmt::format("{} rank{} on {} node{}", world.size(), plural(world.size()), world.nodes(),
                          plural(world.nodes())));
  say_by_rank(console, world,
              fmt::format("{}; {} core{} allowed, shared by {} rank{}", device.name(), threads.cores,
                          plural(threads.cores), threads.sharers, plural(threads.sharers)));
  for (const std::string& warning : thread_warnings(world, threads)) console.say("warning: " + warning);
  if (const auto notice =
          idle_gpu_notice(world.local_size(), [](const char* name) { return std::getenv(name); }))
    console.say(*notice);
  if (!world.layout_disagreement().empty()) console.say("notice: " + world.layout_disagreement());
  if (!world.layout_split().empty()) console.say(world.layout_split());
}

std::optional<std::string> precision_warning(DType type, const Device& device) {
  if (device.multiplies(type)) return std::nullopt;
  return fmt::format("--precision {}: this CPU has no instructions for it: right, but slower than fp32",
                     name_of_precision(type));
}

void announce_precision(Console& console, const TrainOptions& options, const Device& device) {
  if (const auto warning = precision_warning(options.matrix_type(), device))
    console.say("warning: " + *warning);
}

void announce_sums(Console& console, const World& world, const TrainOptions& options,
                   const CommSession& session, const Comm& comm) {
  console.say(fmt::format("reduction: {}", comm.name()));
  if (const auto notice = idle_inter_notice(options, world.nodes(), session.heeds_inter()))
    console.say(*notice);
  if (options.zero != "0" && world.size() == 1)
    console.say(fmt::format("notice: --zero {} has no effect here: there is one rank", options.zero));
}

void announce_run(Console& console, const World& world, const PreparedRun& run) {
  const Plan& plan = run.plan;
  const TrainOptions& options = run.options;
  const GptConfig& model = options.model;
  const Manifest& manifest = run.dataset->manifest();
  console.say(
      fmt::format("model: {} layers, {} heads, width {}, context {}, vocabulary {}: {:.2f} M parameters",
                  model.layers, model.heads, model.width, model.context, model.vocabulary,
                  static_cast<double>(Layout(model).parameters()) * 1e-6));
  console.say(fmt::format("data: {} ({}), {} shard{}, {} windows an epoch, {} tokens left over",
                          run.dataset->folder(), manifest.source, plan.lanes, plural(plan.lanes),
                          plan.lanes * plan.windows_per_lane,
                          run.dataset->remainder(Split::train, model.context)));
  if (manifest.entropy)
    console.say(fmt::format("data: synthetic, no model's loss can be below {:.4f}", *manifest.entropy));
  console.say(fmt::format("batch: {} sequences, {} tokens a step; learning rate {:.3g}, {}, {} warm-up steps",
                          options.global_batch, plan.tokens_per_step, Schedule(options, plan.steps).peak(),
                          options.schedule, options.warmup));
  if (options.warmup >= plan.steps)
    console.say(
        fmt::format("notice: --warmup {} is not over after the {} steps of this run: the learning rate does "
                    "not reach --lr",
                    options.warmup, plan.steps));
  say_by_rank(console, world,
              fmt::format("sequences {} to {} from shards {} to {}, {} at a time", plan.sequences.begin,
                          plan.sequences.end - 1, plan.shards.begin, plan.shards.end - 1, plan.micro_batch));
  if (run.start.file.empty())
    console.say(fmt::format("start: step 0 of {}, there is no checkpoint in {}/checkpoints to go on from",
                            plan.steps, options.out));
  else
    console.say(fmt::format("resume: step {} of {} from {}{}, on {} rank{}", run.state.step, plan.steps,
                            run.start.file,
                            run.start.memory ? " in the memory of " + run.start.memory->host : "",
                            world.size(), plural(world.size())));
  for (const std::string& change : run.changes) console.say("changed: " + change);
  for (const std::string& text : run.start.passed_over) console.say("notice: passed over " + text);
}

void announce_attention(Console& console, const World& world, const PreparedRun& run, Device& device) {
  if (!run.options.cudnn_attention()) return;
  console.say("attention, by sequences at a time:");
  say_by_rank(console, world, attention_of_rank(run, device));
}

MemoryEstimate announce_memory(Console& console, const World& world, const TrainOptions& options,
                               const MemoryEstimate& mine, int64_t parameters) {
  console.say(fmt::format("memory{}, with --recompute {}, --zero {}, --precision {}:",
                          options.device == "cuda" ? " of the GPU" : ", without libraries", options.recompute,
                          options.zero, options.precision));
  say_by_rank(console, world, describe(mine, parameters));
  MemoryEstimate largest;
  for (const std::string& bytes : world.gather({reinterpret_cast<const char*>(&mine), sizeof mine})) {
    MemoryEstimate estimate;
    std::memcpy(&estimate, bytes.data(), sizeof estimate);
    if (estimate.total() > largest.total()) largest = estimate;
  }
  return largest;
}

int64_t announce_peak(Console& console, const World& world, int64_t parameters) {
  int64_t largest = 0;
  size_t holder = 0;
  const std::vector<std::string> peaks = world.gather(std::to_string(peak_memory()));
  for (size_t rank = 0; rank < peaks.size(); ++rank)
    if (const int64_t peak = std::stoll(peaks[rank]); peak > largest) {
      largest = peak;
      holder = rank;
    }
  if (largest > 0)
    console.say(fmt::format(
        "memory: at most {} on a rank (rank {}), libraries included, {:.2f} bytes a parameter",
        readable_bytes(largest), holder, static_cast<double>(largest) / static_cast<double>(parameters)));
  return largest;
}

}  // namespace gpt
