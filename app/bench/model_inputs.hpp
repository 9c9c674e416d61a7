#pragma once

#include "comm/collective_cost.hpp"
#include "train/step_model.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// All-reduces that `gpt_bench comm --json` measured.
struct MeasuredSums {
  Cluster shape;  ///< without links
  CommPlan plan;
  struct Sum {
    double bytes, seconds;
  };
  std::vector<Sum> sums;
};
/// @param implementation  as in the file; empty: the first hierarchical one
/// @throws Error(usage) naming the file
MeasuredSums read_comm_json(const std::string& path, const std::string& implementation);

/// What the measurements say of the links. Files of one node give `intra`, files of several `inter`.
struct FittedLinks {
  std::optional<Link> intra, inter;
  double worst_intra = 0.0, worst_inter = 0.0;  ///< largest relative error of an all-reduce
};
/// @param intra  of ranks in a node, where no file says
FittedLinks fit_links(const std::vector<MeasuredSums>& files, const Link& intra);

/// Steps that `gpt_bench scaling --json` measured, weak scaling, by ranks.
struct MeasuredStep {
  StepShape shape;
  double step = 0.0;   ///< seconds, with communication
  int64_t tokens = 0;  ///< a rank and step
};
std::map<int64_t, MeasuredStep> read_scaling_json(const std::string& path);

}  // namespace gpt
