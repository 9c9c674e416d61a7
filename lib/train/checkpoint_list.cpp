#include "base/contracts.hpp"
#include "base/error.hpp"
#include "train/checkpoint_format.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <unistd.h>

namespace gpt {
namespace {

/// As list_checkpoints, but by the commit records alone.
CheckpointList list_committed(const std::string& folder) {
  CheckpointList list;
  for (const std::string& name : list_names(folder)) {
    const std::string path = folder + "/" + name;
    if (name.ends_with(".partial")) list.passed_over.push_back(path + ": a save that was not finished");
    if (!name.ends_with(".h5")) continue;
    try {
      const CommitRecord record = read_commit_record(path);
      list.valid.push_back(
          {.path = path, .step = record.step, .branch = record.branch, .run_id = record.run_id});
    } catch (const Error& error) {
      list.passed_over.push_back(path + ": " + error.what());
      list.broken = true;
    }
  }
  std::ranges::stable_sort(list.valid, [](const CheckpointFile& a, const CheckpointFile& b) {
    return std::tie(a.branch, a.step) > std::tie(b.branch, b.step);
  });
  return list;
}

}  // namespace

std::vector<std::string> list_names(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  validate(!error || error == std::errc::no_such_file_or_directory, "cannot list the checkpoints in {}: {}",
           folder, error.message());
  std::ranges::sort(names);
  return names;
}

CheckpointList list_checkpoints(const std::string& folder) {
  CheckpointList list = list_committed(folder);
  while (!list.valid.empty()) {
    const std::string& path = list.valid.front().path;
    try {
      verify_digest(path, read_commit_record(path));
      break;
    } catch (const Error& error) {
      list.passed_over.push_back(path + ": " + error.what());
      list.broken = true;
      list.valid.erase(list.valid.begin());
    }
  }
  return list;
}

void retire_checkpoints(const std::string& folder, uint64_t run_id, int64_t branch,
                        const Retention& retention) {
  expects(retention.newest >= 1 && retention.every >= 0);
  int64_t newest = 0;
  for (const CheckpointFile& file : list_committed(folder).valid) {
    if (file.run_id != run_id || file.branch != branch || ++newest <= retention.newest) continue;
    if (retention.every > 0 && file.step % retention.every == 0) continue;
    const int failure = unlink(file.path.c_str()) == 0 ? 0 : errno;
    validate(failure == 0 || failure == ENOENT, ExitCode::failed, "cannot delete the old checkpoint {}: {}",
             file.path, std::generic_category().message(failure));
  }
}

}  // namespace gpt
