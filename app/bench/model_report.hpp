#pragma once

#include "comm/collective_cost.hpp"
#include "train/step_model.hpp"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

struct Links {
  Link intra, inter;
  std::vector<std::string> notes;
};

struct Prediction {
  Cluster cluster;
  StepPrediction step;
  double tokens_per_second = 0.0;
  std::optional<double> measured;  ///< seconds of a step
};

/// @param alone  a step without communication
void print_predictions(const Links& links, const StepShape& alone, double bucket_mb,
                       const std::vector<Prediction>& predictions);

nlohmann::json predictions_json(const Links& links, const std::vector<Prediction>& predictions);

}  // namespace gpt
