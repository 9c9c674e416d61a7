#include "train/run_report.hpp"

#include "base/contracts.hpp"
#include "train/announcement.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t shortest_interval = 10;  // steps between reports of the ranks' times, at least

/// Of all ranks. Collective.
std::vector<RankDevice> devices_of(const World& world, const std::string& name, const std::string& uuid) {
  const std::vector<std::string> names = world.gather(name), uuids = world.gather(uuid);
  std::vector<RankDevice> devices;
  for (size_t rank = 0; rank < names.size(); ++rank)
    devices.push_back({.name = names[rank], .uuid = uuids[rank]});
  return devices;
}

/// Collective.
Stragglers make_stragglers(const World& world, const Plan& plan) {
  std::vector<int64_t> sequences;
  for (const std::string& share : world.gather(std::to_string(plan.sequences.size())))
    sequences.push_back(std::stoll(share));
  return {world.gather(world.host()), std::move(sequences)};
}

}  // namespace

RunReport::RunReport(const World& world, Console& console, const PreparedRun& run, const std::string& device,
                     int64_t parameters, const MemoryEstimate& memory, const std::string& run_folder)
    : world_(world),
      console_(console),
      options_(run.options),
      parameters_(parameters),
      progress_(console, run.state.step, run.plan.steps, run.options.log_every) {
  const MemoryEstimate largest = announce_memory(console, world, options_, memory, parameters);
  const std::vector<RankDevice> devices = devices_of(world, device, run.device.uuid);
  world.everywhere([&] {
    if (!world.is_root()) return;
    journal_.emplace(run_folder + "/log.jsonl");
    journal_->start(run.state.step, run.start.branch, world.nodes(), parameters, run.plan.steps,
                    options_.global_batch, devices);
    journal_->memory(largest);
    if (!run.start.file.empty())
      journal_->resume(run.state.step, world.size(), run.start.file,
                       run.start.memory ? run.start.memory->host : std::string());
  });
  gpu_.emplace(world, run.device, options_, parameters);
  if (world.size() == 1) return;
  stragglers_.emplace(make_stragglers(world, run.plan));
  rank_times_.emplace(world, std::max(options_.log_every, shortest_interval));
}

void RunReport::begin_step(int64_t step) {
  if (is_logged(step)) gpu_->request();
}

void RunReport::take(int64_t step, double loss, double grad_norm) {
  if (!journal_) return;
  ensures(given_.step == step);
  given_.loss = loss;
  given_.grad_norm = grad_norm;
  given_.mfu = gpu_->mfu(given_.tokens_per_second);
  if (is_logged(step)) given_.gpu = gpu_->latest();
  for (const std::string& line : gpu_->take_notices()) console_.say("notice: " + line);
  journal_->step(given_);
  progress_.step(given_);
}

void RunReport::time(int64_t step, const StepTimes& times) {
  if (!rank_times_) return;
  rank_times_->add(step, times, gpu_->latest());
  report(rank_times_->receive());
}

void RunReport::report(const std::optional<IntervalTimes>& times) {
  if (!times) return;
  journal_->ranks(*times, *stragglers_);
  for (const std::string& line : stragglers_->add(*times)) console_.say(line);
}

void RunReport::finish() {
  while (rank_times_ && rank_times_->pending()) report(rank_times_->receive(true));
  rank_times_.reset();
  gpu_.reset();
}

void RunReport::end(int64_t step) {
  const int64_t peak = announce_peak(console_, world_, parameters_);
  if (journal_) journal_->end(step, peak, parameters_);
}

}  // namespace gpt
