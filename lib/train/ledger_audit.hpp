#pragma once

#include "base/integers.hpp"
#include "train/ledger_epochs.hpp"
#include "train/ledger_format.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What is wrong, of one kind: how often, and the first few in words.
struct LedgerFault {
  static constexpr size_t most_named = 8;

  int64_t count = 0;
  std::vector<std::string> named;

  void add(const std::function<std::string()>& describe) {
    if (++count <= static_cast<int64_t>(most_named)) named.push_back(describe());
  }
};

/// Windows of each lane that a run passed over, and where they had been read before.
struct SkippedRange {
  Range places;                ///< in each lane's order from the start of training on
  std::vector<int64_t> steps;  ///< that had read them and were counted out
  int64_t windows = 0;         ///< of all lanes, that records name
};

/// What the records of a run folder say about the windows that its weights have gone through.
struct LedgerReport {
  LedgerStretch newest;       ///< the stretch in which the history ends
  int64_t stretches = 0;      ///< that the folder has records of
  int64_t last_step = 0;      ///< of the history
  int64_t unknown_steps = 0;  ///< of its beginning, that have no records here
  bool elsewhere = false;     ///< because a run in another folder took them

  std::vector<EpochBook::Epoch> epochs;
  std::vector<SkippedRange> skipped;
  int64_t dropped_windows = 0;      ///< read for steps that do not count, as far as that was recorded
  std::vector<std::string> damage;  ///< bytes that are no records; no fault if those that count are there

  LedgerFault missing;     ///< sequences of steps that count, without a record
  LedgerFault doubled;     ///< windows that were read again in an epoch
  LedgerFault lost;        ///< windows of whole epochs that nothing read
  LedgerFault misplaced;   ///< reads from where no window of that sequence can be
  LedgerFault unrecorded;  ///< checkpoints whose place the records do not have

  bool exact() const {
    return missing.count + doubled.count + lost.count + misplaced.count + unrecorded.count == 0;
  }
};

/// Reads all records of a run folder, follows its newest stretch (or the newest of a branch) back to the
/// beginning over restarts, changes of ranks and batch, rollbacks and branches, and checks that each window
/// was read once in each epoch. Steps that were rolled back, or that came after the checkpoint from which
/// another start went on, are counted out. Of the order in which windows are read it knows their number
/// alone. Memory: two bits a window of the epoch under way, and of each with faults.
/// @throws Error(usage) if nothing is recorded there, or not of that branch; Error(damaged)
LedgerReport audit_ledger(const std::string& run_folder, std::optional<int64_t> branch = {});

}  // namespace gpt
