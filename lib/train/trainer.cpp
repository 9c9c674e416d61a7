#include "train/trainer.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/signals.hpp"
#include "base/stopwatch.hpp"
#include "data/batch_reader.hpp"
#include "model/generator.hpp"
#include "model/gpt.hpp"
#include "train/announcement.hpp"
#include "train/checkpointing.hpp"
#include "train/device_state.hpp"
#include "train/evaluator.hpp"
#include "train/flat_buffers.hpp"
#include "train/gpu_readings.hpp"
#include "train/guard.hpp"
#include "train/journal.hpp"
#include "train/progress.hpp"
#include "train/rank_times.hpp"
#include "train/sample_log.hpp"
#include "train/schedule.hpp"
#include "train/step_clock.hpp"
#include "train/stragglers.hpp"
#include "train/time_limit.hpp"
#include "train/training_step.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace gpt {
namespace {

/// Tokens on the host with the shape of `like`, to copy from: Queue::copy only reads its source.
Tensor host_view(const std::vector<Token>& tokens, const Tensor& like) {
  return {const_cast<Token*>(tokens.data()), DType::i32, {like.dim(0), like.dim(1)}};
}

/// A tick for every section of the model, on its way to whoever listens.
class TickingListener : public SectionListener {
public:
  TickingListener(TrainingStep& step, const Layout& layout, Queue& queue, Watchdog& watchdog)
      : step_(step), next_(step.reducer()), layout_(layout), queue_(queue), watchdog_(watchdog) {}

  void before_use(int64_t section) override {
    watchdog_.tick();
    next_.before_use(section);
  }
  void after_gradients(int64_t section) override {
    fault_point("backward");
    if (value_point("gradients")) spoil(layout_.sections()[static_cast<size_t>(section)].range.begin);
    next_.after_gradients(section);
    watchdog_.tick();
  }

private:
  void spoil(int64_t element) {
    static float nothing = std::numeric_limits<float>::quiet_NaN();
    queue_.copy(step_.gradients().flat({element, element + 1}), Tensor(&nothing, DType::f32, {1}));
  }

  TrainingStep& step_;
  SectionListener& next_;
  const Layout& layout_;
  Queue& queue_;
  Watchdog& watchdog_;
};

constexpr int64_t shortest_interval = 10;  // steps between reports of the ranks' times, at least

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
  Checkpointing checkpoints;
  const TimeLimit time_limit;
  double longest_step = 0.0, longest_evaluation = 0.0;  // seconds
  bool stopping = false;                                // as all ranks have agreed
  StartPoint origin;                                    // of the branch that is being written
  const OnBadStep on_bad_step;
  SpikeDetector spikes;
  std::array<SpikeDetector::Limits, 2> given;  // to the last two steps
  std::optional<BadStep> offence;              // for which the run has to go back
  int64_t skipped_in_row = 0, rollbacks = 0;

  // Only while run() is under way.
  std::optional<Journal> journal;  // root only
  std::optional<BatchReader> reader;
  std::optional<Progress> progress;
  std::optional<GpuReadings> gpu;
  std::optional<RankTimes> rank_times;  // with several ranks
  std::optional<Stragglers> stragglers;
  StepRecord sent;  // of the step whose scalars are still to be received: all but those

  /// @param beside  a duplicate of `ranks` for the thread that saves; null: nothing will be saved
  Impl(const World& ranks, std::unique_ptr<World> beside, Device& processor, Comm& group, PreparedRun& run,
       Console& speaker, FlatBuffers buffers)
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
        checkpoints(world, console, options, plan.steps, start.start.file,
                    start.start.file.empty() ? -1 : state.step, step_state_bytes(),
                    make_saver(std::move(beside))),
        time_limit(options.time_limit),
        origin(start.start),
        on_bad_step(on_bad_step_named(options.on_bad_step)),
        spikes(options.spike_z) {
    spikes.restore(state.spikes);
    device.reserve(*queue, start.step_shape);
    reducer.measure(&clock);
    run.dataset->open(Split::train, plan.shards);
    if (options.eval_every > 0)
      evaluator.emplace(*run.dataset, options.model.context, options.eval_windows, plan.micro_batch, device,
                        world.rank(), world.size());
    if (!start.start.file.empty()) load(start.start.file);
  }

  MemoryEstimate memory() const {
    return {.parameters = step.weights().bytes(),
            .gradients = step.gradient_bytes(),
            .optimizer = step.optimizer().state_bytes(),
            .tree = step.tree_bytes(),
            .activations = model.activation_bytes(),
            .scratch = start.scratch_bytes,
            .libraries = start.library_bytes,
            .saving = options.save_every == 0
                          ? 0
                          : saved_size().bytes(layout, reducer.buckets(), comm.size(), comm.rank())};
  }

  SavedSize saved_size() const {
    const std::vector<DeviceState> states = step.state();
    return {.states = std::ssize(states), .gathers = std::ranges::any_of(states, &DeviceState::shared_out)};
  }

  int64_t step_state_bytes() const { return saved_size().states * layout.size() * size_of(DType::f32); }

  std::unique_ptr<Saver> make_saver(std::unique_ptr<World> beside) {
    if (!beside) return nullptr;
    return std::make_unique<Saver>(
        world, std::move(beside),
        SaveSettings{
            .folder = options.out + "/checkpoints", .keep = options.keep, .verify = options.verify_saves},
        layout, SavedParts(step.state(), layout, reducer.buckets(), comm, device));
  }

  void load(const std::string& file) {
    world.watchdog().enter(Phase::load, start.state.step);
    load_device_state(file, layout, step.state(), *queue, [this] { world.watchdog().tick(); });
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
  }

  /// Above that a loss or gradient norm is a spike.
  StepLimits limits() {
    const SpikeDetector::Limits found = spikes.limits(state.step + 1);
    given[static_cast<size_t>((state.step + 1) % 2)] = found;
    return {.loss_sum = found.loss * static_cast<double>(plan.tokens_per_step), .grad_norm = found.grad_norm};
  }

  void run(const std::string& run_folder);
  void take_steps(SampleLog* sample_log);
  void take_step(SampleLog* sample_log);
  void end_what_is_under_way();
  void receive(bool drain);
  void report_ranks(const std::optional<IntervalTimes>& times);
  void report(const StepScalars::Values& values);
  void judge(const StepScalars::Values& values, double loss);
  void roll_back();
  void discard();
  void evaluate_and_log();
  void vote();
  void save();
  void finish_saving();
  [[noreturn]] void stop();
  bool due(int64_t interval) const { return interval > 0 && state.step % interval == 0; }
  bool is_logged(int64_t number) const { return options.log_every > 0 && number % options.log_every == 0; }
};

void Trainer::Impl::run(const std::string& run_folder) {
  read_from(state.skipped);
  std::optional<SampleLog> sample_log;
  if (options.log_samples)
    sample_log.emplace(run_folder,
                       std::stoll(world.broadcast(journal ? std::to_string(journal->attempt()) : "")),
                       world.rank());
  gpu.emplace(world, start.device, options, layout.parameters());
  if (world.size() > 1) {
    const std::vector<std::string> shares = world.gather(std::to_string(plan.sequences.size()));
    std::vector<int64_t> sequences;
    for (const std::string& share : shares) sequences.push_back(std::stoll(share));
    stragglers.emplace(world.gather(world.host()), std::move(sequences));
    rank_times.emplace(world, std::max(options.log_every, shortest_interval));
  }
  // The reader, which may hang on a disk, outlives the loop.
  world.watchdog().limit_unwinding([&] {
    try {
      take_steps(sample_log ? &*sample_log : nullptr);
    } catch (const SharedError&) {
      end_what_is_under_way();
      throw;
    } catch (const std::exception&) {
      if (world.size() == 1) checkpoints.settle();
      throw;
    }
  });
  while (rank_times && rank_times->pending()) report_ranks(rank_times->receive(true));
  rank_times.reset();
  gpu.reset();
}

void Trainer::Impl::take_steps(SampleLog* sample_log) {
  step.spread_weights(state.step);
  while (state.step < plan.steps) {
    take_step(sample_log);
    if (due(options.eval_every) || due(options.save_every) || state.step == plan.steps) receive(true);
    if (offence) {
      roll_back();
      continue;
    }
    if (due(options.eval_every)) evaluate_and_log();
    if (due(options.save_every)) save();
    if (stopping && state.step < plan.steps) stop();
  }
  reducer.wait_for_params();
  if (evaluator && !due(options.eval_every)) evaluate_and_log();
  finish_saving();
}

void Trainer::Impl::take_step(SampleLog* sample_log) {
  world.watchdog().enter(Phase::step, state.step + 1);
  clock.begin(state.step + 1, *queue);
  set_fault_step(state.step + 1);
  fault_point("step");
  const Stopwatch watch;
  if (is_logged(state.step + 1)) gpu->request();
  const double rate = schedule.learning_rate(state.step);
  const HostBatch& batch = wait_for_batch();
  backward(batch);
  vote();
  step.finish(limits());
  checkpoints.protect(*queue);
  fault_point("update");
  step.update(state.step, rate);
  ++state.step;
  state.cursor += plan.windows_per_step;
  if (sample_log != nullptr) sample_log->record(state.step, batch);
  receive(false);
  const double seconds = watch.seconds();
  longest_step = std::max(longest_step, seconds);
  sent = {.step = state.step,
          .learning_rate = rate,
          .tokens = state.cursor * plan.lanes * options.model.context,
          .seconds = seconds,
          .data_seconds = clock.data_seconds(),
          .tokens_per_second = static_cast<double>(plan.tokens_per_step) / seconds};
  clock.end(*queue);
}

/// What this rank has to say to all, who hear it with the step's loss.
void Trainer::Impl::vote() {
  if (checkpoints.has_news()) step.scalars().vote(StepScalar::save_votes, *queue);
  // The vote is heard a step later.
  const bool late =
      world.is_root() && time_limit.reached(2 * longest_step + longest_evaluation, checkpoints.next_save());
  if (late || stop_signal() != 0) step.scalars().vote(StepScalar::stop_votes, *queue);
}

/// At the end of a step, on all ranks.
void Trainer::Impl::stop() {
  receive(true);
  if (offence) roll_back();
  finish_saving();
  std::string why;
  const std::vector<std::string> signals = world.gather(stop_signal() != 0 ? signal_name(stop_signal()) : "");
  for (size_t rank = 0; rank < signals.size() && why.empty(); ++rank)
    if (!signals[rank].empty()) why = fmt::format("{} came to rank {}", signals[rank], rank);
  if (why.empty()) why = time_limit.reason();
  const std::string message = fmt::format(
      "stopped after step {} of {}: {}. {}", state.step, plan.steps, why,
      options.save_every > 0 ? "The same command goes on from there" : "Nothing was saved (--save-every 0)");
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
  report(*step.scalars().receive(drain));
  const StepTimes times = clock.times(*done);
  if (!rank_times) return;
  rank_times->add(*done, times, gpu->latest());
  report_ranks(rank_times->receive());
}

void Trainer::Impl::report_ranks(const std::optional<IntervalTimes>& times) {
  if (!times) return;
  journal->ranks(*times, *stragglers);
  for (const std::string& line : stragglers->add(*times)) console.say(line);
}

void Trainer::Impl::report(const StepScalars::Values& values) {
  const double loss = values.loss_sum / static_cast<double>(plan.tokens_per_step);
  if (values.save_votes > 0) checkpoints.hear();
  stopping = stopping || values.stop_votes > 0;
  if (!values.accepted) return judge(values, loss);
  skipped_in_row = 0;
  spikes.add(values.step, loss, values.grad_norm);
  if (!world.is_root()) return;
  ensures(sent.step == values.step);
  sent.loss = loss;
  sent.grad_norm = values.grad_norm;
  sent.mfu = gpu->mfu(sent.tokens_per_second);
  if (is_logged(sent.step)) sent.gpu = gpu->latest();
  for (const std::string& line : gpu->take_notices()) console.say("notice: " + line);
  journal->step(sent);
  progress->step(sent);
}

/// A step that the optimizer did not take. Collective: all ranks have the same values, but for their own
/// loss.
void Trainer::Impl::judge(const StepScalars::Values& values, double loss) {
  const SpikeDetector::Limits& limit = given[static_cast<size_t>(values.step % 2)];
  const bool finite = std::isfinite(loss) && std::isfinite(values.grad_norm);
  BadStep bad{
      .step = values.step,
      .reason =
          finite ? fmt::format("loss {} (limit {:.4g}) or gradient norm {} (limit {:.4g}) is a spike", loss,
                               limit.loss, values.grad_norm, limit.grad_norm)
                 : fmt::format("loss {} or gradient norm {} is not a finite number", loss, values.grad_norm),
      .action = options.on_bad_step,
      .loss = loss,
      .grad_norm = values.grad_norm,
      .ranks = {},
      .windows = {}};
  const std::vector<std::string> own = world.gather(std::isfinite(values.own_loss) ? "" : "not finite");
  for (int rank = 0; rank < world.size(); ++rank)
    if (!own[static_cast<size_t>(rank)].empty()) bad.ranks.push_back(rank);
  const int64_t begin = state.cursor - (state.step - values.step + 1) * plan.windows_per_step;
  bad.windows = {lanes.place_of(begin), lanes.place_of(begin + plan.windows_per_step - 1) + 1};
  if (world.is_root()) journal->bad_step(bad);

  const bool too_many = on_bad_step == OnBadStep::skip ? ++skipped_in_row > options.max_bad_steps
                                                       : rollbacks == options.max_bad_steps;
  if (on_bad_step == OnBadStep::stop || too_many)
    throw SharedError(
        fmt::format(
            "step {}: {}{}{}; no checkpoint holds that step. Lower --lr or --clip, look at the step's "
            "data (windows {} to {} of each shard's order), or see --on-bad-step",
            bad.step, bad.reason, bad.ranks.empty() ? "" : fmt::format(", from {}", list_ranks(bad.ranks)),
            too_many ? fmt::format(", and so were {} before (--max-bad-steps)", options.max_bad_steps) : "",
            bad.windows.begin, bad.windows.end - 1),
        ExitCode::bad_numbers);
  console.say(fmt::format("warning: step {}: {}: {}", bad.step, bad.reason,
                          on_bad_step == OnBadStep::skip
                              ? "it is left out, and the run goes on"
                              : "the run goes back to the last checkpoint, and passes over its data"));
  if (on_bad_step == OnBadStep::rollback && !offence) offence = std::move(bad);
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
  const BadStep bad = *std::exchange(offence, std::nullopt);
  ++rollbacks;
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
  CheckpointHeader header;
  world.everywhere([&] {
    header = read_checkpoint_header(file);
    load_device_state(file, layout, step.state(), *queue, [this] { world.watchdog().tick(); });
  });
  state = {.step = header.step,
           .cursor = header.cursor,
           .skipped = with_range(state.skipped, bad.windows),
           .spikes = header.spikes};
  spikes.restore(state.spikes);
  origin.branch = std::max(origin.branch, header.branch) + 1;
  origin.parent_step = header.step;
  read_from(state.skipped);
  step.spread_weights(state.step);
  if (world.is_root()) journal->rollback(header.step, origin.branch, file);
  console.say(fmt::format("step {}/{}  gone back to {}", header.step, plan.steps, file));
  // So that a start after this one passes over these windows, too.
  if (options.save_every > 0) save();
}

void Trainer::Impl::evaluate_and_log() {
  const Stopwatch watch;
  world.watchdog().enter(Phase::evaluation, state.step);
  fault_point("eval");
  reducer.wait_for_params();
  const double loss = evaluator->mean_loss(model, listener, comm, *queue, world.watchdog());
  longest_evaluation = std::max(longest_evaluation, watch.seconds());
  if (!world.is_root()) return;
  journal->eval(state.step, loss);
  console.say(fmt::format("step {}/{}  validation loss {:.4f} over {} windows", state.step, plan.steps, loss,
                          evaluator->windows()));
}

void Trainer::Impl::save() {
  world.watchdog().enter(Phase::save, state.step);
  fault_point("save");
  const Manifest& manifest = dataset.manifest();
  reducer.wait_for_params();
  checkpoints.begin({.step = state.step,
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
                     .spikes = spikes.state(),
                     .comm_choice = start.comm_choice},
                    step.state(), *queue);
}

/// The last step is worth as many attempts as may fail.
void Trainer::Impl::finish_saving() {
  if (options.save_every == 0) return;
  for (checkpoints.hear(); checkpoints.saved_step() != state.step; checkpoints.hear()) save();
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
  std::unique_ptr<World> beside = options.save_every > 0 ? world.duplicate() : nullptr;
  world.everywhere([&] {
    impl_ = std::make_unique<Impl>(world, std::move(beside), device, comm, run, console, std::move(buffers));
  });
}

Trainer::~Trainer() = default;

void Trainer::run(const std::string& run_folder, const RunFolder* held) {
  Impl& trainer = *impl_;
  const World& world = trainer.world;
  const std::string& resumed = trainer.start.start.file;
  const MemoryEstimate memory =
      announce_memory(trainer.console, world, trainer.options, trainer.memory(), trainer.layout.parameters());
  const std::vector<std::string> names = world.gather(trainer.device.name()),
                                 uuids = world.gather(trainer.start.device.uuid);
  std::vector<RankDevice> devices;
  for (size_t rank = 0; rank < names.size(); ++rank)
    devices.push_back({.name = names[rank], .uuid = uuids[rank]});
  trainer.progress.emplace(trainer.console, trainer.state.step, trainer.plan.steps,
                           trainer.options.log_every);
  world.everywhere([&] {
    if (!world.is_root()) return;
    trainer.journal.emplace(run_folder + "/log.jsonl");
    trainer.journal->start(trainer.state.step, trainer.start.start.branch, world.nodes(),
                           trainer.layout.parameters(), trainer.plan.steps, trainer.options.global_batch,
                           devices);
    trainer.journal->memory(memory);
    if (!resumed.empty()) trainer.journal->resume(trainer.state.step, world.size(), resumed);
    trainer.checkpoints.attach(held, &*trainer.journal);
  });
  trainer.run(run_folder);
  const int64_t parameters = trainer.layout.parameters();
  const int64_t peak = announce_peak(trainer.console, world, parameters);
  if (world.is_root()) trainer.journal->end(trainer.state.step, peak, parameters);
}

Trainer::Sample Trainer::sample(int64_t tokens) {
  Impl& trainer = *impl_;
  Watchdog& watchdog = trainer.world.watchdog();
  watchdog.enter(Phase::sample, trainer.state.step);
  fault_point("sample");
  constexpr int64_t prompt_tokens = 16;
  std::vector<Token> window(static_cast<size_t>(trainer.options.model.context) + 1);
  trainer.dataset.read_window(Split::train, trainer.plan.shards.begin, 0, window);
  const auto length = std::min<int64_t>(prompt_tokens, trainer.options.model.context);
  const std::vector<Token> prompt(window.begin(), window.begin() + length);

  Generator generator(trainer.options.model, trainer.device, trainer.step.weights().with({}),
                      trainer.dataset.tokenizer().vocabulary());
  generator.start(prompt, {.temperature = 0.8, .top_k = 50, .top_p = 1.0, .seed = trainer.options.seed}, 0);
  std::vector<Token> drawn;
  for (int64_t i = 0; i < tokens; ++i) {
    drawn.push_back(generator.next().front());
    watchdog.tick();
  }
  const Tokenizer& tokenizer = trainer.dataset.tokenizer();
  return {.prompt = nlohmann::json(tokenizer.decode(prompt))
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
          .continuation = tokenizer.decode(drawn)};
}

}  // namespace gpt
