#include "train/training.hpp"

#include "base/fault.hpp"
#include "base/signals.hpp"
#include "comm/comm_session.hpp"
#include "comm/nccl_scratch.hpp"
#include "comm/nccl_session.hpp"
#include "device/device.hpp"
#include "model/layout.hpp"
#include "train/agreement.hpp"
#include "train/announcement.hpp"
#include "train/buckets.hpp"
#include "train/checkpoint_evaluation.hpp"
#include "train/comm_choice.hpp"
#include "train/comm_plan.hpp"
#include "train/console.hpp"
#include "train/device_choice.hpp"
#include "train/library_memory.hpp"
#include "train/memory_check.hpp"
#include "train/memory_estimate.hpp"
#include "train/node_checkpoint_room.hpp"
#include "train/node_checkpoint_run.hpp"
#include "train/plan.hpp"
#include "train/preparation.hpp"
#include "train/run_folder.hpp"
#include "train/threads.hpp"
#include "train/trainer.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace gpt {
namespace {

/// Device of this rank, and what connects it with those of the others.
struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<CommSession> session;
  std::unique_ptr<Comm> comm;
  int64_t rounding_bytes = 0;  ///< of a GPU, that `comm` holds
};

std::unique_ptr<CommSession> make_session(Console& console, const World& world, Device& device,
                                          const DeviceChoice& where, const TrainOptions& options) {
  if (!where.gpu) return make_mpi_session(world);
  NcclSettings settings;
  constexpr double share = 0.8;  // so that it speaks before the watchdog, and says more
  if (options.timeout > 0) settings.timeout = std::min(settings.timeout, share * options.timeout);
  return make_nccl_session(world, device, settings, [&](const std::string& line) { console.say(line); });
}

/// Settles what `auto` means for a run's gradients and writes it down with the run.
TrainOptions settle_sums(Console& console, const World& world, const Backend& backend, PreparedRun& run) {
  const CommChoice choice = choose_comm(world, *backend.session, *backend.device, run.options,
                                        run.comm_choice, [&](const std::string& line) { console.say(line); });
  run.comm_choice = to_text(choice);
  return with_sums(run.options, choice.reduction, choice.inter);
}

/// GELU in the product's epilogue is a kernel less, but `attention` computes it again by itself, and that
/// shall give the same bits.
CudaOptions cuda_options(const TrainOptions& options) {
  return {.tf32 = options.tf32,
          .fused_gelu = options.recompute != "attention",
          .cudnn_attention = options.cudnn_attention()};
}

/// @param run  null: nothing is trained, any sum will do
Backend make_backend(Console& console, const World& world, const DeviceChoice& where,
                     const TrainOptions& given, PreparedRun* run) {
  const ThreadChoice threads = choose_threads(world, static_cast<int>(given.threads));
  fault_point("comm");
  Backend backend{.device = make_device(where, threads.threads, cuda_options(given)),
                  .session = nullptr,
                  .comm = nullptr,
                  .rounding_bytes = 0};
  backend.session = make_session(console, world, *backend.device, where, given);
  const TrainOptions options = run != nullptr ? settle_sums(console, world, backend, *run)
                                              : with_any_sums(given, world, *backend.session);
  const CommPlan plan = comm_plan(options);
  // Only what is trained has leaves.
  backend.comm = plan.reduction == Reduction::tree && run != nullptr
                     ? backend.session->make_tree(plan, leaves_of_ranks(options, world.size()))
                     : backend.session->make(plan);
  if (where.gpu) backend.rounding_bytes = nccl_scratch_bytes(plan, world.node_size(), world.nodes());
  announce_ranks(console, world, threads, *backend.device);
  announce_precision(console, options, *backend.device);
  return backend;
}

/// Once more whether memory will do, now that libraries hold what nobody could know before.
void count_libraries(Console& console, const World& world, const LibraryMemory& libraries,
                     const Backend& backend, PreparedRun& run) {
  if (!run.device.gpu) return;
  const Buckets buckets(Layout(run.options.model), run.options.bucket_bytes());
  run.library_bytes = libraries.measure(world, *backend.device, *backend.comm, buckets.largest(),
                                        run.options.zero != "0", backend.rounding_bytes);
  check_memory(console, world, run.device, run.options, run.plan, StateDivision::possible,
               LibraryUse{.bytes = run.library_bytes, .free_before = libraries.free_before()});
}

void evaluate_only(Console& console, const World& world, PreparedRun& run) {
  if (run.start.file.empty())
    throw SharedError(
        fmt::format("--eval-only: there is no checkpoint in {}/checkpoints: name one with --resume FILE, "
                    "or train first",
                    run.options.out),
        ExitCode::usage);
  const Backend backend = make_backend(console, world, run.device, run.options, nullptr);
  const GiveUpOnFailure give_up(*backend.session);
  announce_sums(console, world, run.options, *backend.session, *backend.comm);
  const EvaluationResult result = evaluate_checkpoint(world, *backend.device, *backend.comm, *run.dataset,
                                                      run.options, run.start.file, run.state.last_update);
  console.say(
      fmt::format("{}: validation loss {:.8f} over {} windows", run.start.file, result.loss, result.windows));
}

void print_sample(Console& console, const World& world, Trainer& trainer, int64_t tokens) try {
  if (!world.is_root() || tokens == 0) return;
  const TrainingSample sample = trainer.sample(tokens);
  console.say("prompt, from the training data: " + sample.prompt);
  console.say("sample:\n" + sample.continuation);
} catch (const std::exception& error) {
  console.say(fmt::format("warning: no sample, {}", error.what()));
}

/// The run folder, held by the root; null on the other ranks. Collective.
std::unique_ptr<RunFolder> hold_folder(const World& world, const std::string& path) {
  std::unique_ptr<RunFolder> folder;
  world.everywhere([&] {
    if (world.is_root()) folder = std::make_unique<RunFolder>(path);
  });
  return folder;
}

std::string words_upon_signals(const TrainOptions& options) {
  if (options.save_every == 0)
    return "gpt_mpi: ended by a signal from outside; nothing was saved (--save-every 0)";
  return fmt::format(
      "gpt_mpi: ended by a signal from outside; work since the newest checkpoint in {}/checkpoints is lost, "
      "the same command goes on from there",
      options.out);
}

constexpr const char* words_upon_request =
    "gpt_mpi: a signal asks to stop: the run ends soon, at the end of a step, with a checkpoint, unless its "
    "launcher ends it before; Ctrl-C or SIGTERM once more ends it at once";

void train(Console& console, const World& world, PreparedRun& run) {
  const MemoryEstimate memory = check_memory(console, world, run.device, run.options, run.plan);
  run.scratch_bytes = memory.scratch;
  check_node_checkpoints(console, world, run.options, memory);
  run.step_shape = scratch_shape(run.options, run.plan,
                                 choose_threads(world, static_cast<int>(run.options.threads)).threads);
  const std::unique_ptr<RunFolder> folder = hold_folder(world, run.options.out);
  if (agree_on_start(world, run.options).file != run.start.file)
    throw SharedError(fmt::format("another job saved a checkpoint in {} while this one started: start again",
                                  run.options.out),
                      ExitCode::usage);
  world.everywhere([&] {
    if (!folder) return;
    remove_verdict(run.options.out);
    folder->write_text("config.ini", run.configuration);
  });
  run.node_checkpoints =
      begin_node_checkpoints(console, world, folder.get(), run.options, run.start, run.state.step);
  world.watchdog().set_folder(run.options.out);
  end_at_once_where(run.options.out + "/verdict.json");
  if (folder) say_before_signals_end_it(words_upon_signals(run.options), run.options.out + "/verdict.json");
  // The folder is this job's until the verdict on an error stands there.
  world.watchdog().limit_unwinding([&] {
    const LibraryMemory libraries(run.device);
    const Backend backend = make_backend(console, world, run.device, run.options, &run);
    world.everywhere([&] {
      if (folder) folder->write_text("reduction.json", run.comm_choice + "\n");
    });
    announce_run(console, world, run);
    count_libraries(console, world, libraries, backend, run);
    announce_attention(console, world, run, *backend.device);
    Trainer trainer(world, *backend.device, *backend.comm, run, console);
    const GiveUpOnFailure give_up(*backend.session);
    announce_sums(console, world, run.options, *backend.session, *backend.comm);
    {
      const AnswerToStop answer(folder ? words_upon_request : "", run.options.out + "/verdict.json");
      trainer.run(run.options.out, folder.get());
    }
    print_sample(console, world, trainer, run.options.sample_tokens);
  });
}

}  // namespace

int run_training(World& world, const OptionSource& source) {
  Console console(world.is_root());
  PreparedRun run = prepare_run(world, source);
  run.device = choose_device(world, run.options.device);
  run.options.device = run.device.gpu ? "cuda" : "cpu";
  world.everywhere([&] { validate_attention(run.options.attention, run.options.device); });
  if (!run.device.notice.empty()) console.say(run.device.notice);
  for (const std::string& difference : environment_differences(world)) console.say("warning: " + difference);
  if (run.options.eval_only) {
    refuse_stop_requests();
    evaluate_only(console, world, run);
  } else if (!run.start.file.empty() && !run.start.memory && run.state.step >= run.plan.steps) {
    // A folder in which another job is at work is not finished.
    const std::unique_ptr<RunFolder> folder = hold_folder(world, run.options.out);
    end_node_checkpoints(console, world, run.options);
    console.say(
        fmt::format("finished: {} has {} steps, {} were asked for. For more, raise --steps (or --epochs); to "
                    "train anew, take another --out and give all options again (--config {}/config.ini)",
                    run.start.file, run.state.step, run.plan.steps, run.options.out));
  } else {
    train(console, world, run);
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace gpt
