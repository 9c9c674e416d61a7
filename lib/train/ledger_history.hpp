#pragma once

#include "base/integers.hpp"
#include "train/ledger_format.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// A stretch as the ledger's files have it.
struct RecordedStretch {
  LedgerStretch stretch;
  std::string file;
  int64_t number = 0;     ///< in the file
  int64_t last_step = 0;  ///< of which any rank's reads are recorded; where the stretch begins: none
};

/// All stretches of a run folder, in the order in which they were begun.
struct LedgerIndex {
  std::vector<RecordedStretch> stretches;
  std::vector<std::string> damage;  ///< bytes of the files that are no records, one sentence each
};

/// @throws Error(usage) if nothing is recorded in that folder; Error(damaged) naming a file with records
/// that are as they were written and say what cannot be
LedgerIndex index_ledger(const std::string& run_folder);

/// What the files hold of the reads of their stretches. @param take  gets the stretch's index in `index`
void read_ledger(const LedgerIndex& index, const std::function<void(size_t stretch, const StepReads&)>& take);

/// Steps (first, last] of a stretch that the weights at the end have gone through: `first` is where the
/// stretch begins.
struct HistoryPart {
  size_t stretch = 0;
  int64_t last_step = 0;
};

/// How a run came to where it is.
struct LedgerHistory {
  std::vector<HistoryPart> parts;  ///< the oldest first
  int64_t unknown_steps = 0;  ///< the first so many were taken in stretches that this folder does not have
  bool elsewhere = false;     ///< because the run was started in another folder
};

/// From the stretch `end` back: each goes on from the newest one before it that reached its place (run,
/// branch, step and cursor).
LedgerHistory trace_history(const std::vector<RecordedStretch>& stretches, size_t end);

}  // namespace gpt
