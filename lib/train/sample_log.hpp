#pragma once

#include "data/batch_reader.hpp"
#include "train/append_file.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace gpt {

/// The windows that this rank consumed, as CSV: `samples/attempt-A-rank-R.csv` in the run's folder, with the
/// columns step,sequence,epoch,lane,window,branch: after a rollback the same step comes again on a higher
/// branch, and that one counts.
class SampleLog {
public:
  /// @throws Error naming the file if it cannot be written
  SampleLog(const std::string& run_folder, int64_t attempt, int rank);

  void record(int64_t step, int64_t branch, const HostBatch& batch);

private:
  std::optional<AppendFile> file_;
};

}  // namespace gpt
