#include "train/checkpoint_survey.hpp"

#include "base/error.hpp"
#include "data/file_io.hpp"
#include "train/checkpoint_format.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <tuple>

namespace gpt {
namespace {

constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";

bool begins_as_hdf5(const std::string& path) {
  const FileHandle file = open_regular_file(path);
  std::array<char, hdf5_signature.size()> first{};
  const int64_t got = read_at(file, path, 0, std::as_writable_bytes(std::span(first)));
  return std::string_view(first.data(), static_cast<size_t>(got)) == hdf5_signature;
}

/// Of a file that has a checkpoint's name and no good end: another program's, or a damaged one.
CheckpointKind kind_of_broken(const std::string& path, int64_t bytes) {
  try {
    return bytes > 0 && !begins_as_hdf5(path) ? CheckpointKind::foreign : CheckpointKind::broken;
  } catch (const Error&) {
    return CheckpointKind::foreign;  // a folder, a pipe, a link that leads nowhere
  }
}

void examine(const std::string& path, SurveyedFile& file) {
  try {
    file.record = read_commit_record(path);
    if (file.kind == CheckpointKind::valid) verify_digest(path, *file.record);
  } catch (const Error& error) {
    if (file.kind != CheckpointKind::valid) return;
    file.why = error.what();
    file.kind = file.record ? CheckpointKind::broken : kind_of_broken(path, file.bytes);
  }
}

SurveyedFile survey(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  SurveyedFile file{.name = name, .why = {}, .record = {}};
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    file.bytes = status.st_size;
    file.written = status.st_mtime;
  }
  if (name.ends_with(".partial")) {
    file.kind = CheckpointKind::partial;
    file.why = "a save that goes on, or was broken off";
  } else if (name.find(".set-aside-") != std::string::npos) {
    file.kind = CheckpointKind::set_aside;
    file.why = "it stood in the way, or did not read back: never used again";
    examine(path, file);
  } else if (name.ends_with(".h5")) {
    file.kind = CheckpointKind::valid;
    examine(path, file);
  } else {
    file.why = "no checkpoint by its name: it is never looked at";
  }
  return file;
}

}  // namespace

CheckpointSurvey survey_checkpoints(const std::string& folder) {
  CheckpointSurvey result;
  for (const std::string& name : list_names(folder)) result.files.push_back(survey(folder, name));
  const auto place = [](const SurveyedFile& file) {
    const bool valid = file.kind == CheckpointKind::valid;
    return std::tuple(!valid, valid ? -file.record->branch : 0, valid ? -file.record->step : 0);
  };
  std::ranges::stable_sort(result.files, {}, place);
  const CheckpointList list = list_checkpoints(folder);
  if (!list.valid.empty()) result.chosen = std::filesystem::path(list.valid.front().path).filename().string();
  return result;
}

}  // namespace gpt
