#pragma once

#include "train/commit_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What a file in a folder of checkpoints is.
enum class CheckpointKind {
  valid,      ///< whole, as far as its commit record and the digest of what lies outside the state tell
  broken,     ///< has a checkpoint's name and is cut off, damaged or empty
  partial,    ///< a save that goes on, or was broken off
  set_aside,  ///< stood in the way of a newer file, or did not read back as it was written
  foreign,    ///< not of this program
};

constexpr const char* name_of(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::valid:
      return "valid";
    case CheckpointKind::broken:
      return "broken";
    case CheckpointKind::partial:
      return "partial";
    case CheckpointKind::set_aside:
      return "set aside";
    case CheckpointKind::foreign:
      break;
  }
  return "foreign";
}

struct SurveyedFile {
  std::string name;
  CheckpointKind kind = CheckpointKind::foreign;
  std::string why;  ///< not valid, in a sentence; empty for valid files
  int64_t bytes = 0;
  int64_t written = 0;                 ///< last change, in seconds since 1970, UTC
  std::optional<CommitRecord> record;  ///< where there is one that is whole
};

struct CheckpointSurvey {
  std::vector<SurveyedFile> files;  ///< valid ones first, newest first (branch, then step); others by name
  std::string chosen;               ///< the name of the one that `--resume auto` takes; empty: none
};

/// Looks at all that a folder holds, and reads what lies outside the state of the files that end in ".h5".
/// @throws Error(usage) if the folder cannot be listed
CheckpointSurvey survey_checkpoints(const std::string& folder);

}  // namespace gpt
