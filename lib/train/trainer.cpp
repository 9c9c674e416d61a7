#include "train/trainer.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/signals.hpp"
#include "base/stopwatch.hpp"
#include "data/batch_reader.hpp"
#include "model/gpt.hpp"
#include "train/bad_steps.hpp"
#include "train/checkpointing.hpp"
#include "train/device_state.hpp"
#include "train/evaluator.hpp"
#include "train/flat_buffers.hpp"
#include "train/ledger.hpp"
#include "train/node_checkpoint_load.hpp"
#include "train/node_checkpoint_room.hpp"
#include "train/node_checkpoint_run.hpp"
#include "train/replica_check.hpp"
#include "train/run_report.hpp"
#include "train/schedule.hpp"
#include "train/step_clock.hpp"
#include "train/stop_request.hpp"
#include "train/ticking_listener.hpp"
#include "train/training_step.hpp"
#include "train/weight_fault.hpp"

#include <algorithm>
#include <utility>

namespace gpt {
namespace {

/// Tokens on the host with the shape of `like`, to copy from: Queue::copy only reads its source.
Tensor host_view(const std::vector<Token>& tokens, const Tensor& like) {
  return {const_cast<Token*>(tokens.data()), DType::i32, {like.dim(0), like.dim(1)}};
}

}  // namespace

struct Trainer::Impl {
  const World& world;
  Device& device;
  Comm& comm;
  const PreparedRun& start;
  Console& console;
  const TrainOptions& options;
  const Plan& plan;
  const Dataset& dataset;
  const Layout layout;
  Lanes lanes;
  const Schedule schedule;
  std::unique_ptr<Queue> queue;
  TensorBuffer inputs, targets;  // (this rank's sequences, T) i32
  StepClock clock;
  TrainingStep step;
  Gpt& model;
  Reducer& reducer;
  TickingListener listener;
  std::optional<Evaluator> evaluator;
  TrainState state;
  const std::shared_ptr<Ledger> ledger;
  Checkpointing checkpoints;
  StopRequest stop_request;
  bool stopping = false, save_asked = false;  // as all ranks have agreed
  StartPoint origin;                          // of the branch that is being written
  BadSteps bad_steps;
  std::optional<ReplicaCheck> replicas;  // where they are compared
  int64_t compared_step = -1;            // the last one

  // Only while run() is under way.
  std::optional<RunReport> report;
  std::optional<BatchReader> reader;

  /// @param beside, node  duplicates of `ranks` and of this node's, for the thread that saves; null: nothing
  /// will be saved, or nothing in memory
  Impl(const World& ranks, std::unique_ptr<World> beside, std::unique_ptr<World> node, Device& processor,
       Comm& group, PreparedRun& run, Console& speaker, FlatBuffers buffers)
      : world(ranks),
        device(processor),
        comm(group),
        start(run),
        console(speaker),
        options(run.options),
        plan(run.plan),
        dataset(*run.dataset),
        layout(options.model),
        lanes(plan.make_lanes(options.seed, run.state.skipped)),
        schedule(options, plan.steps),
        queue(device.make_queue()),
        inputs(device, DType::i32, {plan.sequences.size(), options.model.context}),
        targets(device, DType::i32, {plan.sequences.size(), options.model.context}),
        clock(device, world.watchdog()),
        step({.model = options.model,
              .micro_batch = plan.micro_batch,
              .tokens = plan.tokens_per_step,
              .recompute = recompute_named(options.recompute),
              .dropout_seed = options.seed,
              .clip = options.clip,
              .optimizer = adamw_rates(options),
              .leaves = plan.leaves,
              .all_leaves = plan.all_leaves},
             layout, device, comm, *queue, std::move(buffers)),
        model(step.model()),
        reducer(step.reducer()),
        listener(step, layout, *queue, world.watchdog()),
        state(run.state),
        ledger(std::make_shared<Ledger>(options.out, world.rank())),
        checkpoints(world, console, options, plan.steps, start.start.file_on_disk(),
                    start.start.step_on_disk(), step_state_bytes(),
                    make_saver(std::move(beside), std::move(node))),
        stop_request(world, options.time_limit),
        origin(start.start),
        bad_steps(world, console, options, plan.tokens_per_step) {
    bad_steps.restore(state.spikes);
    if (options.check_replicas > 0 && world.size() > 1)
      replicas.emplace(world, layout, device, step.weights());
    device.reserve(*queue, start.step_shape);
    reducer.measure(&clock);
    run.dataset->open(Split::train, plan.shards);
    if (options.eval_every > 0)
      evaluator.emplace(*run.dataset, options.model.context, options.eval_windows, plan.micro_batch, device,
                        world.rank(), world.size());
    if (!start.start.file.empty() && !start.start.memory) load(start.start.file);
  }

  MemoryEstimate memory() const {
    return {.parameters = step.weights().bytes(),
            .gradients = step.gradient_bytes(),
            .optimizer = step.optimizer().state_bytes(),
            .tree = step.tree_bytes(),
            .activations = model.activation_bytes(),
            .scratch = start.scratch_bytes,
            .libraries = start.library_bytes,
            .gathering = options.kinds_of_saves() * saved_size().gathered(reducer.buckets()),
            .saving = copied_bytes(),
            .node_checkpoints =
                start.node_checkpoints
                    ? ceil_div(node_checkpoints_size(layout, saved_size().states), world.node_size())
                    : 0};
  }

  int64_t copied_bytes() const {
    if (!options.saves()) return 0;
    const SavedSize saved = saved_size();
    const int64_t for_disk = saved.copied(layout, comm.size(), comm.rank());
    if (!start.node_checkpoints) return for_disk;
    return for_disk + saved.copied(layout, world.node_size(), world.node_rank());
  }

  SavedSize saved_size() const {
    const std::vector<DeviceState> states = step.state();
    return {.states = std::ssize(states), .gathers = std::ranges::any_of(states, &DeviceState::shared_out)};
  }

  int64_t step_state_bytes() const { return saved_size().states * layout.size() * size_of(DType::f32); }

  std::unique_ptr<Saver> make_saver(std::unique_ptr<World> beside, std::unique_ptr<World> node) {
    if (!beside) return nullptr;
    std::unique_ptr<NodeSaver> memory_of_node;
    if (node) {
      const Range part = checkpoint_part(layout, node->size(), node->rank());
      memory_of_node =
          std::make_unique<NodeSaver>(std::move(node), *start.node_checkpoints, layout,
                                      SavedParts(step.state(), part, reducer.buckets(), comm, device));
    }
    return std::make_unique<Saver>(world, std::move(beside),
                                   SaveSettings{.folder = options.out + "/checkpoints",
                                                .keep = options.keep,
                                                .keep_every = options.keep_every,
                                                .verify = options.verify_saves,
                                                .ledger = ledger},
                                   layout, SavedParts(step.state(), layout, reducer.buckets(), comm, device),
                                   std::move(memory_of_node));
  }

  void load(const std::string& file) {
    world.watchdog().enter(Phase::load, start.state.step);
    load_device_state(file, layout, step.state(), *queue, [this] { world.watchdog().tick(); });
  }

  /// Collective.
  void load_from_memory(const StartPoint& from) {
    world.watchdog().enter(Phase::load, start.state.step);
    load_from_node(world, from.memory->node, from.file, layout, step.state(), *queue);
  }

  /// Of this rank's sequences.
  void backward(const HostBatch& batch) {
    if (faults_armed) queue->host([] { fault_point("device"); });
    queue->copy(inputs, host_view(batch.inputs, inputs));
    queue->copy(targets, host_view(batch.targets, targets));
    step.backward({.inputs = inputs, .targets = targets, .first_sequence = batch.first_sequence}, state.step,
                  listener);
  }

  const HostBatch& wait_for_batch() {
    const StepClock::DataWait waiting(clock);
    return reader->next(state.cursor);
  }

  void read_from(const std::vector<Range>& skipped) {
    reader.reset();
    lanes = plan.make_lanes(options.seed, skipped);
    reader.emplace(dataset, lanes, options.model.context, options.global_batch, plan.sequences);
    ledger->begin({.attempt = report->journal() != nullptr ? report->journal()->attempt() : 0,
                   .run_id = origin.run_id,
                   .branch = origin.branch,
                   .from_branch = origin.from_branch,
                   .elsewhere = origin.elsewhere,
                   .step = state.step,
                   .cursor = state.cursor,
                   .skipped = skipped,
                   .lanes = plan.lanes,
                   .windows_per_lane = plan.windows_per_lane,
                   .context = options.model.context,
                   .global_batch = options.global_batch,
                   .ranks = world.size(),
                   .dataset = dataset.manifest().fingerprint()});
  }

  void run();
  void take_steps();
  void take_step();
  void end_what_is_under_way();
  void receive(bool drain);
  void hear(const StepScalars::Values& values);
  void roll_back();
  void discard();
  void evaluate_and_log();
  void vote();
  void compare_replicas();
  CheckpointHeader header() const;
  void save(SavePlaces places = {});
  void finish_saving();
  [[noreturn]] void stop();
  bool due(int64_t interval) const { return interval > 0 && state.step % interval == 0; }
  /// Of the state as it is: no copy of the last step is kept in memory.
  SavePlaces places_due() const {
    return {.disk = save_asked || due(options.save_every),
            .memory = due(options.memory_every) && state.step < plan.steps};
  }
  bool save_is_due() const { return places_due().disk || places_due().memory; }
  Range windows_of(int64_t number) const;
};

void Trainer::Impl::run() {
  read_from(state.skipped);
  // The reader, which may hang on a disk, outlives the loop.
  world.watchdog().limit_unwinding([&] {
    try {
      take_steps();
    } catch (const SharedError&) {
      end_what_is_under_way();
      throw;
    } catch (const std::exception&) {
      if (world.size() == 1) checkpoints.settle();
      throw;
    }
  });
}

void Trainer::Impl::take_steps() {
  step.spread_weights(state.last_update);
  // The other nodes hold none of it yet.
  if (start.start.memory && start.node_checkpoints) save({.disk = false, .memory = true});
  while (state.step < plan.steps) {
    take_step();
    if (due(options.eval_every) || save_is_due() || due(options.check_replicas) || state.step == plan.steps)
      receive(true);
    if (bad_steps.wants_rollback()) {
      roll_back();
      continue;
    }
    if (due(options.check_replicas)) compare_replicas();
    if (due(options.eval_every)) evaluate_and_log();
    if (save_is_due()) save(places_due());
    if (due(Ledger::interval(options.global_batch, world.size()))) ledger->keep(world);
    if (stopping && state.step < plan.steps) stop();
  }
  reducer.wait_for_params();
  if (evaluator && !due(options.eval_every)) evaluate_and_log();
  finish_saving();
}

void Trainer::Impl::take_step() {
  world.watchdog().enter(Phase::step, state.step + 1);
  clock.begin(state.step + 1, *queue);
  set_fault_step(state.step + 1);
  fault_point("step");
  const Stopwatch watch;
  report->begin_step(state.step + 1);
  const double rate = schedule.learning_rate(state.step);
  const HostBatch& batch = wait_for_batch();
  backward(batch);
  vote();
  step.finish(bad_steps.limits(state.step + 1));
  checkpoints.protect(*queue);
  fault_point("update");
  step.update(state.step, rate);
  if (value_point("weights")) {
    reducer.wait_for_params();
    flip_weight_bit(step.weights(), *queue);
  }
  ledger->record(state.step + 1, state.cursor, batch);
  ++state.step;
  state.cursor += plan.windows_per_step;
  receive(false);
  const double seconds = watch.seconds();
  stop_request.took_step(seconds);
  checkpoints.took_step(seconds);
  report->give({.step = state.step,
                .learning_rate = rate,
                .tokens = state.cursor * plan.lanes * options.model.context,
                .seconds = seconds,
                .data_seconds = clock.data_seconds(),
                .tokens_per_second = static_cast<double>(plan.tokens_per_step) / seconds});
  clock.end(*queue);
}

/// What this rank has to say to all, who hear it with the step's loss.
void Trainer::Impl::vote() {
  if (checkpoints.has_news()) step.scalars().vote(StepScalar::save_votes, *queue);
  if (checkpoints.is_due()) step.scalars().vote(StepScalar::due_votes, *queue);
  if (stop_request.is_there(checkpoints.next_save())) step.scalars().vote(StepScalar::stop_votes, *queue);
}

/// At the end of a step, on all ranks.
void Trainer::Impl::stop() {
  receive(true);
  if (bad_steps.wants_rollback()) roll_back();
  finish_saving();
  const std::string message = fmt::format(
      "stopped after step {} of {}: {}. {}", state.step, plan.steps, stop_request.reason(),
      options.saves() ? "The same command goes on from there" : "Nothing was saved (--save-every 0)");
  throw SharedError(message, ExitCode::stopped);
}

/// After an error that all ranks throw at the same place MPI goes on to its end in good order: what other
/// ranks still send into this one's buffers must arrive before they are gone.
void Trainer::Impl::end_what_is_under_way() {
  checkpoints.settle();
  reducer.wait_for_params();
  queue->synchronize();
}

/// Takes in what came of the step before the last one, or of the last one where nothing is to be left open:
/// the one place at which the host waits for a device that trains.
void Trainer::Impl::receive(bool drain) {
  const std::optional<int64_t> done = step.scalars().due(drain);
  if (!done) return;
  clock.wait_for(*done);
  hear(*step.scalars().receive(drain));
  report->time(*done, clock.times(*done));
}

/// What a step has come to, on all ranks at the same place.
void Trainer::Impl::hear(const StepScalars::Values& values) {
  if (values.save_votes > 0) checkpoints.hear();
  save_asked = save_asked || values.due_votes > 0;
  if (values.stop_votes > 0 && !std::exchange(stopping, true)) answer_to_sigterm();
  if (!values.accepted) return bad_steps.judge(values, windows_of(values.step), report->journal());
  const double loss = values.loss_sum / static_cast<double>(plan.tokens_per_step);
  state.last_update = values.step;
  bad_steps.accept(values.step, loss, values.grad_norm);
  report->take(values.step, loss, values.grad_norm);
}

/// Of each lane, in its order from the start of training on. @param number  of one of the last two steps
Range Trainer::Impl::windows_of(int64_t number) const {
  const int64_t begin = state.cursor - (state.step - number + 1) * plan.windows_per_step;
  return {lanes.place_of(begin), lanes.place_of(begin + plan.windows_per_step - 1) + 1};
}

/// What the step behind a bad one has come to, which does not count.
void Trainer::Impl::discard() {
  const std::optional<int64_t> done = step.scalars().due(true);
  if (!done) return;
  clock.wait_for(*done);
  step.scalars().receive(true);
  clock.times(*done);
}

/// To the newest checkpoint of this run, without the windows of the step for which it goes back.
void Trainer::Impl::roll_back() {
  const BadStep bad = bad_steps.begin_rollback();
  discard();
  checkpoints.hear();
  reducer.wait_for_params();
  queue->synchronize();
  const std::string file = checkpoints.saved();
  if (file.empty())
    throw SharedError(fmt::format("step {}: {}, and there is no checkpoint to go back to (--save-every)",
                                  bad.step, bad.reason),
                      ExitCode::bad_numbers);
  world.watchdog().enter(Phase::load, bad.step);
  CheckpointHeader loaded;
  world.everywhere([&] {
    loaded = read_checkpoint_header(file);
    load_device_state(file, layout, step.state(), *queue, [this] { world.watchdog().tick(); });
  });
  state = {.step = loaded.step,
           .last_update = loaded.last_update,
           .cursor = loaded.cursor,
           .skipped = with_range(state.skipped, bad.windows),
           .spikes = loaded.spikes};
  bad_steps.restore(state.spikes);
  origin.branch = std::max(origin.branch, loaded.branch) + 1;
  origin.parent_step = loaded.step;
  origin.from_branch = loaded.branch;
  read_from(state.skipped);
  step.spread_weights(state.last_update);
  compared_step = -1;
  if (world.is_root()) report->journal()->rollback(loaded.step, origin.branch, file);
  console.say(fmt::format("step {}/{}  gone back to {}", loaded.step, plan.steps, file));
  // So that a start after this one passes over these windows, too.
  if (options.saves()) save();
}

void Trainer::Impl::evaluate_and_log() {
  const Stopwatch watch;
  world.watchdog().enter(Phase::evaluation, state.step);
  fault_point("eval");
  reducer.wait_for_params();
  const double loss = evaluator->mean_loss(model, listener, comm, *queue, world.watchdog());
  stop_request.took_evaluation(watch.seconds());
  if (!world.is_root()) return;
  report->journal()->eval(state.step, loss);
  console.say(fmt::format("step {}/{}  validation loss {:.4f} over {} windows", state.step, plan.steps, loss,
                          evaluator->windows()));
}

/// Where nothing is left open: no weights that differ between ranks are trained on, or saved.
void Trainer::Impl::compare_replicas() {
  if (!replicas || compared_step == state.step) return;
  const Stopwatch watch;
  reducer.wait_for_params();
  const std::optional<ReplicaDifference> difference = replicas->compare(*queue);
  compared_step = state.step;
  if (world.is_root()) report->journal()->replicas(state.step, watch.seconds(), difference);
  if (!difference) return;
  const bool one = difference->ranks.size() == 1;
  throw SharedError(
      fmt::format("step {}: {}. They were the same bits before: memory, network or program are at fault. "
                  "Nothing of it was saved; the same command goes on from the last checkpoint",
                  state.step, difference->text),
      ExitCode::bad_numbers, one ? std::optional(difference->ranks.front()) : std::nullopt);
}

/// Of a checkpoint of the state as it is, where nothing is left open.
CheckpointHeader Trainer::Impl::header() const {
  const Manifest& manifest = dataset.manifest();
  return {.step = state.step,
          .last_update = state.last_update,
          .cursor = state.cursor,
          .skipped = state.skipped,
          .run_id = origin.run_id,
          .branch = origin.branch,
          .parent_step = origin.parent_step,
          .model = options.model,
          .configuration = start.configuration,
          .tokenizer = manifest.tokenizer,
          .dataset_fingerprint = manifest.fingerprint(),
          .dataset_source = manifest.source,
          .spikes = bad_steps.state(),
          .comm_choice = start.comm_choice};
}

void Trainer::Impl::save(SavePlaces places) {
  compare_replicas();
  world.watchdog().enter(Phase::save, state.step);
  fault_point("save");
  if (places.disk) save_asked = false;
  reducer.wait_for_params();
  checkpoints.begin(header(), step.state(), *queue, places);
}

/// The last step is worth as many attempts as may fail.
void Trainer::Impl::finish_saving() {
  if (!options.saves()) return ledger->keep(world);
  for (checkpoints.hear(); checkpoints.saved_step() != state.step; checkpoints.hear()) save();
  end_node_checkpoints(console, world, options);
}

Trainer::Trainer(const World& world, Device& device, Comm& comm, PreparedRun& run, Console& console) {
  const TrainOptions& options = run.options;
  const Layout layout(options.model);
  FlatBuffers buffers(
      world, device, comm, layout,
      {.type = options.matrix_type(), .bucket_bytes = options.bucket_bytes(), .sharded = options.zero != "0"},
      [&](const Weights& weights) {
        if (!run.start.file.empty()) return;
        set_initial_weights(weights, layout, options.model, options.seed, *device.make_queue());
      });
  std::unique_ptr<World> beside = options.saves() ? world.duplicate() : nullptr;
  std::unique_ptr<World> node = run.node_checkpoints ? world.duplicate_node() : nullptr;
  world.everywhere([&] {
    impl_ = std::make_unique<Impl>(world, std::move(beside), std::move(node), device, comm, run, console,
                                   std::move(buffers));
  });
  if (run.start.memory) impl_->load_from_memory(run.start);
}

Trainer::~Trainer() = default;

void Trainer::run(const std::string& run_folder, const RunFolder* held) {
  Impl& trainer = *impl_;
  trainer.report.emplace(trainer.world, trainer.console, trainer.start, trainer.device.name(),
                         trainer.layout.parameters(), trainer.memory(), run_folder);
  trainer.checkpoints.attach(held, trainer.report->journal());
  trainer.run();
  trainer.report->finish();
  trainer.report->end(trainer.state.step);
}

TrainingSample Trainer::sample(int64_t tokens) {
  Impl& trainer = *impl_;
  Watchdog& watchdog = trainer.world.watchdog();
  watchdog.enter(Phase::sample, trainer.state.step);
  return draw_training_sample(trainer.options, trainer.dataset, trainer.plan.shards.begin,
                              trainer.step.weights().with({}), trainer.device, watchdog, tokens);
}

}  // namespace gpt
