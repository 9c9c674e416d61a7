#include "train/sample_log.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace gpt {

SampleLog::SampleLog(const std::string& run_folder, int64_t attempt, int rank) {
  const std::filesystem::path folder = std::filesystem::path(run_folder) / "samples";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  file_.emplace((folder / fmt::format("attempt-{}-rank-{}.csv", attempt, rank)).string(), true);
  file_->append("step,sequence,epoch,lane,window,branch\n");
}

void SampleLog::record(int64_t step, int64_t branch, const HostBatch& batch) {
  std::string lines;
  for (int64_t i = 0; i < batch.count; ++i) {
    const WindowId& window = batch.windows[static_cast<size_t>(i)];
    lines += fmt::format("{},{},{},{},{},{}\n", step, batch.first_sequence + i, window.epoch, window.lane,
                         window.index, branch);
  }
  file_->append(lines);
}

}  // namespace gpt
