#include "train/rank_times.hpp"

#include "comm/messages.hpp"

#include <cmath>
#include <exception>
#include <limits>

namespace gpt {
namespace {

/// What is not known travels as what is not a number.
void append(std::vector<double>& values, const GpuStatus& gpu) {
  for (const GpuField& field : gpu_fields)
    values.push_back((gpu.*field.value).value_or(std::numeric_limits<double>::quiet_NaN()));
}

GpuStatus gpu_from(const double* values) {
  GpuStatus gpu;
  for (size_t i = 0; i < gpu_fields.size(); ++i)
    if (!std::isnan(values[i])) gpu.*gpu_fields[i].value = values[i];
  return gpu;
}

}  // namespace

RankTimes::RankTimes(const World& world, int64_t interval)
    : world_(world), interval_(interval), gathers_(std::make_unique<std::deque<Gather>>()) {
  const Watchdog::Waiting waiting(world.watchdog());
  comm_ = duplicate(world.world());
}

RankTimes::~RankTimes() {
  if (std::uncaught_exceptions() > 0) {
    gathers_.release();  // MPI may still read and write there
    comm_.release();
    return;
  }
  const Watchdog::Waiting waiting(world_.watchdog());
  for (Gather& gather : *gathers_) MPI_Wait(&gather.request, MPI_STATUS_IGNORE);
}

void RankTimes::add(int64_t step, const StepTimes& times, const GpuStatus& gpu) {
  sum_ += times;
  ++steps_;
  if (step % interval_ != 0) return;
  const auto mean = [&](double sum) { return sum / static_cast<double>(steps_); };
  Gather& gather = gathers_->emplace_back();
  gather.step = step;
  gather.steps = steps_;
  gather.mine = {mean(sum_.compute), mean(sum_.wait), mean(sum_.reduce), mean(sum_.data)};
  append(gather.mine, gpu);
  if (world_.is_root()) gather.all.resize(static_cast<size_t>(world_.size() * values));
  sum_ = {};
  steps_ = 0;
  check_mpi(MPI_Igather(gather.mine.data(), values, MPI_DOUBLE, gather.all.data(), values, MPI_DOUBLE, 0,
                        comm_.get(), &gather.request));
}

std::optional<IntervalTimes> RankTimes::receive(bool wait) {
  if (gathers_->empty()) return {};
  MPI_Request& request = gathers_->front().request;
  if (wait) {
    const Watchdog::Waiting waiting(world_.watchdog());
    check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done == 0) return {};
  }
  const Gather gather = std::move(gathers_->front());
  gathers_->pop_front();
  if (!world_.is_root()) return {};
  IntervalTimes times{.step = gather.step, .steps = gather.steps, .of_rank = {}};
  for (size_t i = 0; i < gather.all.size(); i += values) {
    times.of_rank.push_back({.compute = gather.all[i],
                             .wait = gather.all[i + 1],
                             .reduce = gather.all[i + 2],
                             .data = gather.all[i + 3]});
    times.gpu_of_rank.push_back(gpu_from(&gather.all[i + times_sent]));
  }
  return times;
}

}  // namespace gpt
