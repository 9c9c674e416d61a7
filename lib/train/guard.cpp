#include "train/guard.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace gpt {
namespace {

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

double limit_of(const std::vector<double>& last, double z) {
  if (z == 0.0 || std::ssize(last) < SpikeDetector::least) return std::numeric_limits<double>::infinity();
  constexpr double normal = 1.4826;  // of a normal distribution: its deviation over that median
  constexpr double least_share = 0.01;
  const double median = median_of(last);
  std::vector<double> distances;
  for (const double value : last) distances.push_back(std::abs(value - median));
  return median + z * std::max(normal * median_of(std::move(distances)), least_share * std::abs(median));
}

}  // namespace

OnBadStep on_bad_step_named(std::string_view name) {
  if (name == "stop") return OnBadStep::stop;
  if (name == "skip") return OnBadStep::skip;
  if (name == "rollback") return OnBadStep::rollback;
  throw Error(fmt::format("--on-bad-step {}: use one of stop, skip, rollback", name), ExitCode::usage);
}

SpikeDetector::Limits SpikeDetector::limits(int64_t next_step) const {
  std::vector<double> losses, norms;
  for (const Step& known : last_) {
    if (known.step >= next_step - 1) continue;
    losses.push_back(known.loss);
    norms.push_back(known.grad_norm);
  }
  return {.loss = limit_of(losses, z_), .grad_norm = limit_of(norms, z_)};
}

void SpikeDetector::add(int64_t step, double loss, double grad_norm) {
  if (z_ == 0.0) return;
  last_.push_back({step, loss, grad_norm});
  if (std::ssize(last_) > window + 1) last_.pop_front();
}

std::string SpikeDetector::state() const {
  if (last_.empty()) return {};
  nlohmann::json json = nlohmann::json::array();
  for (const Step& known : last_) json.push_back({known.step, known.loss, known.grad_norm});
  return json.dump();
}

void SpikeDetector::restore(const std::string& text) try {
  last_.clear();
  if (text.empty() || z_ == 0.0) return;
  for (const nlohmann::json& known : nlohmann::json::parse(text))
    add(known.at(0).get<int64_t>(), known.at(1).get<double>(), known.at(2).get<double>());
} catch (const nlohmann::json::exception& error) {
  throw Error(fmt::format("what the spike detector remembers cannot be read: {}", error.what()),
              ExitCode::damaged);
}

}  // namespace gpt
