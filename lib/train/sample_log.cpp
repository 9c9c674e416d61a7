#include "train/sample_log.hpp"

#include "base/error.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

namespace gpt {

SampleLog::SampleLog(const std::string& run_folder, int64_t attempt, int rank) {
  const std::filesystem::path folder = std::filesystem::path(run_folder) / "samples";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = (folder / fmt::format("attempt-{}-rank-{}.csv", attempt, rank)).string();
  file_.reset(std::fopen(path.c_str(), "w"));
  validate(file_ != nullptr, ExitCode::failed, "cannot write {}: {}", path, std::strerror(errno));
  append("step,sequence,epoch,lane,window\n");
}

void SampleLog::record(int64_t step, const HostBatch& batch) {
  std::string lines;
  for (int64_t i = 0; i < batch.count; ++i) {
    const WindowId& window = batch.windows[static_cast<size_t>(i)];
    lines += fmt::format("{},{},{},{},{}\n", step, batch.first_sequence + i, window.epoch, window.lane,
                         window.index);
  }
  append(lines);
}

void SampleLog::append(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file_.get());
  std::fflush(file_.get());
}

}  // namespace gpt
