#pragma once

#include "data/manifest.hpp"
#include "train/checkpoint.hpp"
#include "train/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// Where a checkpoint is that only one node sees, and what it is newer than.
struct NodeStart {
  int node = 0;  ///< whose ranks read it
  std::string host;
  CheckpointHeader header;
  std::string disk;        ///< the newest checkpoint on disk; empty: none
  int64_t disk_step = -1;  ///< its step; -1: none of this branch
};

/// Where a run begins: from nothing, or from a checkpoint.
struct StartPoint {
  std::string file;   ///< empty: from nothing
  int64_t step = -1;  ///< of the file; -1: from nothing
  uint64_t run_id = 0;
  int64_t branch = 0;  ///< of the checkpoints that this start will write
  int64_t parent_step = -1;
  int64_t from_branch = -1;  ///< of the checkpoint; -1: there is none
  bool elsewhere = false;    ///< the checkpoint was named, and is not in the folder of checkpoints
  std::vector<std::string> passed_over;  ///< files that could not be used, one sentence each
  std::optional<NodeStart> memory = {};  ///< of a file in a node's memory; only that node sees it

  /// What the disk holds of it, or instead of it.
  const std::string& file_on_disk() const { return memory ? memory->disk : file; }
  int64_t step_on_disk() const { return memory ? memory->disk_step : step; }
};

/// Chooses by `--resume`: `auto` takes the newest valid checkpoint of the latest branch in `checkpoints` (a
/// folder; nothing there: a new run), `none` begins anew, a file is taken as it is. Whatever is not the
/// newest of the folder begins a new branch. Looks only; for rank 0.
/// @throws Error(damaged) if a named file cannot be used, or if there are checkpoints and all of them are
/// broken
StartPoint choose_start(const std::string& resume, const std::string& checkpoints);

/// The same on every rank, as a text that World::broadcast carries; without `memory`.
std::string to_text(const StartPoint& start);
StartPoint start_from_text(const std::string& text);

/// @param stored  the options that the checkpoint's run had
/// @throws Error(usage) listing every field in which model, tokenizer, dataset or seed differ
void validate_resume(const CheckpointHeader& header, const TrainOptions& stored, const TrainOptions& now,
                     const Manifest& manifest);

}  // namespace gpt
