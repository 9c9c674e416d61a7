#include "bench/model_report.hpp"

#include "device/dtype.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpt {

void print_predictions(const Links& links, const StepShape& alone, double bucket_mb,
                       const std::vector<Prediction>& predictions) {
  for (const std::string& note : links.notes) fmt::print("{}\n", note);
  double elements = 0;
  for (const ReadyGradients& section : alone.gradients)
    elements += static_cast<double>(section.elements.size());
  fmt::print(
      "step alone {:.1f} ms, of which {:.1f} ms optimizer; gradients {:.1f} MB, buckets of {:.1f} MiB\n",
      1e3 * (alone.compute + alone.optimizer), 1e3 * alone.optimizer, elements * size_of(DType::f32) / 1e6,
      bucket_mb);
  fmt::print("  {:>7} {:>8} {:>10} {:>10} {:>10} {:>12} {:>11} {:>10} {:>8}\n", "nodes", "ranks", "comm ms",
             "exposed ms", "step ms", "tokens/s", "efficiency", "measured", "error");
  for (const Prediction& row : predictions) {
    fmt::print("  {:>7} {:>8} {:>10.2f} {:>10.2f} {:>10.2f} {:>12.0f} {:>9.1f} %", row.cluster.nodes,
               row.cluster.ranks(), 1e3 * row.step.communication, 1e3 * row.step.exposed, 1e3 * row.step.step,
               row.tokens_per_second, 100 * row.step.efficiency);
    if (row.measured)
      fmt::print(" {:>10.2f} {:>6.1f} %", 1e3 * *row.measured, 100 * (row.step.step / *row.measured - 1));
    fmt::print("\n");
  }
}

nlohmann::json predictions_json(const Links& links, const std::vector<Prediction>& predictions) {
  const auto link_json = [](const Link& link) {
    return nlohmann::json{{"latency_s", link.latency}, {"seconds_per_byte", link.seconds_per_byte}};
  };
  nlohmann::json rows = nlohmann::json::array();
  for (const Prediction& row : predictions) {
    rows.push_back({{"nodes", row.cluster.nodes},
                    {"ranks", row.cluster.ranks()},
                    {"communication_s", row.step.communication},
                    {"exposed_s", row.step.exposed},
                    {"step_s", row.step.step},
                    {"tokens_per_s", row.tokens_per_second},
                    {"efficiency", row.step.efficiency}});
    if (row.measured) rows.back()["measured_step_s"] = *row.measured;
  }
  return {{"benchmark", "model"},
          {"intra", link_json(links.intra)},
          {"inter", link_json(links.inter)},
          {"predictions", rows}};
}

}  // namespace gpt
