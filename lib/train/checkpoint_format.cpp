#include "train/checkpoint_format.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace gpt {
namespace {

/// What HDF5 has not seen yet: it may crash on bytes that are not its own.
CommitRecord record_of(const std::string& path, const std::function<void(const CommitRecord&)>& examine) try {
  CommitRecord record = read_commit_record(path);
  examine(record);
  return record;
} catch (const Error& error) {
  throw Error(fmt::format("checkpoint {}: {}", path, error.what()), ExitCode::damaged);
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:08}.h5", step); }

Range elements_of_blocks(Range blocks, int64_t elements) {
  constexpr int64_t block = checkpoint_block / static_cast<int64_t>(sizeof(float));
  return {std::min(blocks.begin * block, elements), std::min(blocks.end * block, elements)};
}

std::string state_path(const std::string& name) { return fmt::format("state/{}", name); }

std::string checksum_path(const std::string& name) { return fmt::format("checksums/{}", name); }

Range extent_of(const H5Dataset& dataset) {
  const int64_t begin = dataset.file_offset();
  return {begin, begin + dataset.size() * size_of(dataset.element())};
}

OpenCheckpoint open_checkpoint(const std::string& path) {
  CommitRecord record = record_of(path, [&](const CommitRecord& found) { verify_digest(path, found); });
  return {.record = std::move(record), .file = H5File::open(path)};
}

OpenCheckpoint open_committed(const std::string& path) {
  CommitRecord record = record_of(path, [](const CommitRecord&) {});
  return {.record = std::move(record), .file = H5File::open(path)};
}

std::optional<std::string> checkpoint_fault(const std::string& file) {
  try {
    read_commit_record(file);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace gpt
