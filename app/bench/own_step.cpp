#include "bench/own_step.hpp"

#include "base/notice.hpp"
#include "base/philox.hpp"
#include "base/stopwatch.hpp"
#include "bench/timed_ops.hpp"
#include "train/announcement.hpp"
#include "train/device_choice.hpp"
#include "train/flat_buffers.hpp"

#include <algorithm>
#include <ctime>

namespace gpt {
namespace {

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double cpu_of_other_threads() {
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

/// Notes when sections of the last micro-batch finish, and passes the news on: at once, or those of the last
/// micro-batch when it is told to.
class Herald : public SectionListener {
public:
  Herald(SectionListener& to, bool holds, const Layout& layout)
      : to_(to), holds_(holds), first_(layout.embedding_section()), ready_(layout.sections().size()) {}

  void before_use(int64_t section) override {
    if (section == first_) begin_micro();
    to_.before_use(section);
  }

  void after_gradients(int64_t section) override {
    ready_[static_cast<size_t>(section)] = watch_.seconds();
    if (holds_)
      held_.push_back(section);
    else
      to_.after_gradients(section);
  }

  void release() {
    for (const int64_t section : held_) to_.after_gradients(section);
    held_.clear();
  }

  double elapsed() const { return watch_.seconds(); }
  const std::vector<double>& ready() const { return ready_; }

private:
  void begin_micro() {
    watch_ = {};
    held_.clear();
  }

  SectionListener& to_;
  bool holds_;
  int64_t first_;  // section that a micro-batch uses
  Stopwatch watch_;
  std::vector<int64_t> held_;
  std::vector<double> ready_;
};

/// Says it where cuDNN was asked for and does not compute it.
void tell_of_own_attention(Device& device, const StepSetup& setup) {
  const std::string why = why_own_attention(device, {.sequences = setup.micro_batch,
                                                     .context = setup.config.context,
                                                     .width = setup.config.width,
                                                     .heads = setup.config.heads,
                                                     .type = setup.type,
                                                     .dropout = setup.config.dropout});
  if (!why.empty()) notice("gpt_bench: notice: not all of attention is cuDNN's: " + why);
}

std::unique_ptr<Device> make_device(const StepSetup& setup, OperatorTimes* times) {
  std::unique_ptr<Device> device = make_device(
      DeviceChoice{.gpu = setup.gpu}, setup.threads,
      {.fused_gelu = setup.recompute != Recompute::attention, .cudnn_attention = setup.cudnn_attention});
  if (setup.cudnn_attention) tell_of_own_attention(*device, setup);
  if (times == nullptr) return device;
  return std::make_unique<TimedDevice>(std::move(device), *times);
}

AdamWStep optimizer_of(const StepSetup& setup) {
  AdamWStep optimizer = adamw_rates({});
  optimizer.rounding = setup.rounding;
  return optimizer;
}

/// With initial weights.
FlatBuffers make_buffers(const World& world, const StepSetup& setup, const Layout& layout, Comm& comm,
                         Device& device, Queue& queue) {
  return {world,
          device,
          comm,
          layout,
          {.type = setup.type, .bucket_bytes = setup.bucket_bytes, .sharded = setup.sharded},
          [&](const Weights& weights) { set_initial_weights(weights, layout, setup.config, 1, queue); }};
}

}  // namespace

OwnStep::OwnStep(const World& world, const StepSetup& setup, OperatorTimes* times)
    : device_(make_device(setup, times)),
      alone_(setup.gpu.has_value()),
      comm_(make_comm(world, alone_ ? CommPlan{.reduction = Reduction::flat} : setup.plan), alone_),
      layout_(setup.config),
      queue_(device_->make_queue()),
      training_({.model = setup.config,
                 .micro_batch = std::min(setup.micro_batch, setup.sequences),
                 .tokens = setup.global_batch * setup.config.context,
                 .recompute = setup.recompute,
                 .optimizer = optimizer_of(setup)},
                layout_, *device_, comm_, *queue_,
                make_buffers(world, setup, layout_, comm_, *device_, *queue_)),
      tokens_(*device_, DType::i32, {setup.sequences, setup.config.context}) {
  training_.spread_weights(0);
  std::vector<int32_t> tokens(static_cast<size_t>(tokens_->size()));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random_bits(1, i) % static_cast<uint64_t>(setup.config.vocabulary));
  queue_->copy(tokens_, Tensor(tokens.data(), DType::i32, {setup.sequences, setup.config.context}));
  queue_->synchronize();
}

OwnStep::Took OwnStep::operator()(Reducing how) {
  Took took;
  const double cpu = cpu_of_other_threads();
  const Stopwatch watch;
  comm_.set_silent(alone_ || how == Reducing::none);
  Herald herald(training_.reducer(), how == Reducing::afterwards, layout_);
  training_.backward({.inputs = tokens_, .targets = tokens_}, step_, herald);
  queue_->synchronize();
  took.backward = herald.elapsed();
  took.ready = herald.ready();
  herald.release();
  training_.finish();
  training_.update(step_++, 1e-4);
  queue_->synchronize();
  took.seconds = watch.seconds();
  took.other_threads = cpu_of_other_threads() - cpu;
  took.grad_norm = training_.scalars().receive(true)->grad_norm;
  return took;
}

std::vector<double> OwnStep::round(int64_t steps) {
  std::vector<double> seconds;
  for (int64_t step = 0; step < steps; ++step) seconds.push_back((*this)(Reducing::overlapped).seconds);
  return seconds;
}

void OwnStep::settle() {
  training_.reducer().wait_for_params();
  queue_->synchronize();
}

SavedParts OwnStep::saved_parts() {
  return {state(), layout_, training_.reducer().buckets(), comm_, *device_};
}

std::vector<int64_t> OwnStep::section_bytes() const {
  std::vector<int64_t> bytes;
  for (const Range& range : layout_.ranges_in_backward_order())
    bytes.push_back(range.size() * size_of(DType::f32));
  return bytes;
}

GptConfig bench_config(const std::string& name, int64_t context, int64_t vocabulary,
                       const std::string& option) {
  const auto preset = std::ranges::find(presets(), name, &Preset::name);
  validate(preset != presets().end(), "--{}: there is no preset {}: use {}", option, name, preset_names());
  GptConfig config = preset->config;
  config.context = context;
  config.vocabulary = vocabulary;
  config.dropout = 0.0F;
  validate_config(config);
  return config;
}

TrainOptions fixed_plan() {
  TrainOptions options;
  options.reduction = "hierarchical";
  options.inter = "ring";
  return options;
}

void check_fixed_plan(const TrainOptions& options) {
  validate_options(options);
  validate(options.reduction == "flat" || options.reduction == "hierarchical",
           "--reduction {}: use flat or hierarchical here", options.reduction);
  validate(options.inter != "auto", "--inter auto: use mpi, ring, halving or direct here");
}

void warn_of_precision(const World& world, DType type) {
  if (!world.is_root()) return;
  if (const auto warning = precision_warning(type, *make_cpu_device(1)))
    notice("gpt_bench: warning: " + *warning);
}

}  // namespace gpt
