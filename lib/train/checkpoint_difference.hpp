#pragma once

#include "data/progress.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// A value of the header or the configuration that two checkpoints do not share.
struct FieldDifference {
  std::string field;
  std::string first;
  std::string second;
};

/// How one parameter of one flat tensor differs between two checkpoints.
struct TensorDifference {
  std::string state;         ///< "params", "m", "v"
  std::string parameter;     ///< its name; "padding" is what belongs to none; empty: the whole flat tensor
  std::string incomparable;  ///< why there are no figures: it is in one of them only, or of another shape
  int64_t elements = 0;
  int64_t different = 0;   ///< elements whose bits differ; NaNs of the same bits do not
  int64_t not_finite = 0;  ///< of these, those that are not finite in one of the two: in no figure below
  double absolute = 0.0;   ///< largest |a − b|
  double relative = 0.0;   ///< largest |a − b| / max(|a|, |b|)

  bool is_equal() const { return incomparable.empty() && different == 0; }
};

struct CheckpointDifference {
  std::vector<FieldDifference> header;
  std::vector<FieldDifference> configuration;
  std::vector<TensorDifference> tensors;  ///< all of them, those that are equal too

  bool same_state() const;
  bool same() const { return header.empty() && configuration.empty() && same_state(); }
};

/// Compares two checkpoints; memory holds one block of each. Parameters are compared by their names, wherever
/// they lie.
/// @throws Error(damaged) naming the file that is no whole checkpoint
CheckpointDifference compare_checkpoints(const std::string& first, const std::string& second,
                                         const Progress& progress = no_progress);

/// Values of two ini texts, by name, that are not the same; "—" stands for one that is missing.
std::vector<FieldDifference> configuration_differences(const std::string& first, const std::string& second);

}  // namespace gpt
