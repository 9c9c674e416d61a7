#include "train/ledger.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/notice.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace gpt {
namespace {

// A reader holds one at a time.
constexpr int64_t group_bytes = int64_t{1} << 20;

}  // namespace

void Ledger::begin(const LedgerStretch& stretch) {
  const std::lock_guard lock(mutex_);
  close_group();
  ++stretches_;
  if (rank_ == 0)
    pending_ += encode_group({.kind = LedgerGroup::Kind::stretch,
                              .rank = 0,
                              .stretch = stretches_ - 1,
                              .payload = to_text(stretch)});
}

void Ledger::record(int64_t step, int64_t cursor, const HostBatch& batch) {
  const std::lock_guard lock(mutex_);
  append_reads(
      open_, {.step = step, .cursor = cursor, .first_sequence = batch.first_sequence, .reads = batch.reads});
  if (std::ssize(open_) >= group_bytes) close_group();
}

void Ledger::close_group() {
  if (open_.empty()) return;
  pending_ += encode_group({.kind = LedgerGroup::Kind::reads,
                            .rank = rank_,
                            .stretch = stretches_ - 1,
                            .payload = std::exchange(open_, {})});
}

std::string Ledger::take() {
  const std::lock_guard lock(mutex_);
  close_group();
  return std::exchange(pending_, {});
}

void Ledger::give_back(const std::string& records) {
  const std::lock_guard lock(mutex_);
  pending_.insert(0, records);
}

void Ledger::write(const World& world, std::string_view records) {
  if (!world.is_root()) return world.collect(records, {});
  const std::lock_guard lock(writing_);
  try {
    world.collect(records, [this](std::string_view groups) {
      if (groups.empty()) return;
      fault_point("ledger.write");
      if (!file_) file_.emplace(run_folder_);
      file_->write(groups);
    });
    if (file_) file_->commit();
  } catch (const std::exception& error) {
    if (file_) file_->give_up();
    throw Error(fmt::format("what was read cannot be recorded: {}", error.what()), ExitCode::saving_failed);
  }
}

void Ledger::flush(const World& world) {
  const std::string records = take();
  try {
    world.everywhere([&] { write(world, records); });
  } catch (...) {
    give_back(records);
    throw;
  }
}

void Ledger::keep(const World& world) {
  try {
    flush(world);
    losing_ = false;
  } catch (const SharedError& error) {
    if (!std::exchange(losing_, true) && world.is_root())
      notice(fmt::format("warning: {}; they are kept in memory for the next time", error.what()));
  }
}

int64_t Ledger::interval(int64_t global_batch, int64_t ranks) {
  constexpr int64_t windows = int64_t{1} << 18;  // of a rank, some bytes each
  return std::max<int64_t>(1, windows * ranks / global_batch);
}

}  // namespace gpt
