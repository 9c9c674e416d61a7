#include "train/checkpointing.hpp"

#include "base/error.hpp"
#include "train/duration.hpp"

#include <algorithm>
#include <utility>

namespace gpt {
namespace {

constexpr double slow_disk = 100e6;  // bytes a second

}  // namespace

Checkpointing::Checkpointing(const World& world, Console& console, const TrainOptions& options, int64_t steps,
                             std::string saved, int64_t saved_step, int64_t bytes,
                             std::unique_ptr<Saver> saver)
    : world_(world),
      console_(console),
      options_(options),
      steps_(steps),
      saved_(std::move(saved)),
      saved_step_(saved_step),
      longest_(static_cast<double>(bytes) / slow_disk),
      saver_(std::move(saver)) {
  if (options.save_every == TrainOptions::by_cost) interval_.emplace(parse_duration(options.mtbf).value());
}

void Checkpointing::attach(const RunFolder* folder, Journal* journal) {
  folder_ = folder;
  journal_ = journal;
}

void Checkpointing::begin(const CheckpointHeader& header, const std::vector<DeviceState>& states,
                          Queue& compute, SavePlaces places) {
  hear();
  const Stopwatch watch;
  world_.watchdog().enter(Phase::save, header.step);
  const bool due_on_disk = places.disk;
  if (places.disk) places.disk = holds_folder(header.step);
  if (places.disk || places.memory) {
    saver_->begin(header, states, compute, places, [folder = folder_] {
      if (folder != nullptr) folder->confirm();
    });
    to_disk_ = places.disk;
    stall_ = watch.seconds();
    if (options_.save == "sync") hear();
  }
  if (due_on_disk) since_save_ = {};
}

/// A job that stood still for a minute may have lost its folder to another: then it ends, before anything is
/// written. A folder that cannot be looked at now is a failed save.
bool Checkpointing::holds_folder(int64_t step) {
  SaveEnd end;
  end.step = step;
  try {
    world_.everywhere([this] {
      if (folder_ != nullptr) folder_->confirm();
    });
    return true;
  } catch (const SharedError& error) {
    if (error.code() == ExitCode::usage) throw;
    end.failure = error.what();
    end.rank = error.rank();
  }
  take(end);
  return false;
}

void Checkpointing::protect(Queue& compute) {
  if (saver_ && saver_->under_way()) saver_->protect(compute);
}

/// Steps beside a save into memory alone tell neither what steps take nor what a save on disk costs them.
void Checkpointing::took_step(double seconds) {
  if (interval_ && is_writing() == is_writing_to_disk()) interval_->took_step(seconds, is_writing());
}

bool Checkpointing::is_due() const {
  return world_.is_root() && interval_ && !is_writing_to_disk() &&
         since_save_.seconds() >= interval_->seconds();
}

/// What this save has cost decides when the next one is due.
void Checkpointing::measure(const SaveEnd& end) {
  interval_->took_save(stall_, stall_ + end.memory.seconds + end.seconds + end.verifying);
  if (journal_ != nullptr)
    journal_->save_interval(end.step, interval_->seconds(), interval_->cost(), interval_->mtbf());
  if (saves_ == 0)
    console_.say(
        fmt::format("checkpoints every {:.3g} s: one delays training by {:.3g} s, and failures are "
                    "{} apart (--mtbf)",
                    interval_->seconds(), interval_->cost(), options_.mtbf));
}

bool Checkpointing::has_news() const { return world_.is_root() && saver_ && saver_->has_ended(); }

void Checkpointing::hear() {
  if (!saver_ || !saver_->under_way()) return;
  const Stopwatch watch;
  world_.watchdog().enter(Phase::save, saver_->step());
  const SaveEnd end = saver_->wait();
  stall_ += watch.seconds();
  take(end);
}

void Checkpointing::take(const SaveEnd& end) {
  if (end.places.memory) report_memory(end);
  if (!end.places.disk) return;
  report(end);
  if (end.failure.empty()) {
    const double seconds = end.seconds + end.verifying;
    if (interval_) measure(end);
    longest_ = saves_ == 0 ? seconds : std::max(longest_, seconds);
    ++saves_;
    saved_ = end.file;
    saved_step_ = end.step;
    failures_ = 0;
    return;
  }
  if (++failures_ == options_.save_failures)
    throw SharedError(end.failure, ExitCode::saving_failed, end.rank);
}

double Checkpointing::next_save() const { return is_writing() ? 2 * longest_ : longest_; }

void Checkpointing::settle() noexcept try { hear(); } catch (const std::exception&) {
  // Said, as far as it can be; the other error is on its way.
}

/// Collective. A node without one is no reason to stop: others have it, or the disk has an older one.
void Checkpointing::report_memory(const SaveEnd& end) {
  const std::vector<std::string> failures =
      world_.gather(world_.node_rank() == 0 ? end.memory.failure : std::string());
  const std::vector<std::string> hosts = world_.gather(world_.host());
  if (!world_.is_root()) return;
  MemorySave save{.step = end.step, .nodes = world_.nodes()};
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    --save.nodes;
    if (save.reason.empty()) save.reason = fmt::format("{} (on {})", failures[rank], hosts[rank]);
  }
  save.seconds = end.memory.seconds;
  save.stall = stall_;
  if (journal_ != nullptr) journal_->memory_save(save);
  if (!save.reason.empty())
    console_.say(
        fmt::format("warning: {} of {} nodes could not keep a checkpoint of step {} in memory: {}; the "
                    "run goes on",
                    world_.nodes() - save.nodes, world_.nodes(), end.step, save.reason));
}

void Checkpointing::report(const SaveEnd& end) {
  if (!world_.is_root()) return;
  if (journal_ != nullptr) journal_->save(end, stall_);
  if (!end.failure.empty()) {
    if (failures_ + 1 < options_.save_failures)
      console_.say(
          fmt::format("warning: {}; the run goes on, and ends when {} in a row have failed "
                      "(--save-failures)",
                      end.failure, options_.save_failures));
    return;
  }
  console_.say(fmt::format("step {}/{}  saved {}", end.step, steps_, end.file));
  if (!end.notice.empty()) console_.say(fmt::format("warning: {}", end.notice));
}

}  // namespace gpt
