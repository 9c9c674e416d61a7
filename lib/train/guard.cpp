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

double limit_of(const std::deque<double>& last, double z) {
  if (z == 0.0 || std::ssize(last) < SpikeDetector::least) return std::numeric_limits<double>::infinity();
  constexpr double normal = 1.4826;  // of a normal distribution: its deviation over that median
  constexpr double least_share = 0.01;
  const double median = median_of({last.begin(), last.end()});
  std::vector<double> distances;
  for (const double value : last) distances.push_back(std::abs(value - median));
  return median + z * std::max(normal * median_of(std::move(distances)), least_share * std::abs(median));
}

void remember(std::deque<double>& last, double value) {
  last.push_back(value);
  if (std::ssize(last) > SpikeDetector::window) last.pop_front();
}

}  // namespace

OnBadStep on_bad_step_named(std::string_view name) {
  if (name == "stop") return OnBadStep::stop;
  if (name == "skip") return OnBadStep::skip;
  if (name == "rollback") return OnBadStep::rollback;
  throw Error(fmt::format("--on-bad-step {}: use one of stop, skip, rollback", name), ExitCode::usage);
}

SpikeDetector::Limits SpikeDetector::limits() const {
  return {.loss = limit_of(losses_, z_), .grad_norm = limit_of(norms_, z_)};
}

void SpikeDetector::add(double loss, double grad_norm) {
  if (z_ == 0.0) return;
  remember(losses_, loss);
  remember(norms_, grad_norm);
}

std::string SpikeDetector::state() const {
  if (losses_.empty()) return {};
  return nlohmann::json{{"losses", losses_}, {"grad_norms", norms_}}.dump();
}

void SpikeDetector::restore(const std::string& text) try {
  losses_.clear();
  norms_.clear();
  if (text.empty() || z_ == 0.0) return;
  const nlohmann::json json = nlohmann::json::parse(text);
  const auto losses = json.at("losses").get<std::vector<double>>();
  const auto norms = json.at("grad_norms").get<std::vector<double>>();
  validate(losses.size() == norms.size(), ExitCode::damaged, "{} losses and {} norms", losses.size(),
           norms.size());
  for (size_t i = 0; i < losses.size(); ++i) add(losses[i], norms[i]);
} catch (const nlohmann::json::exception& error) {
  throw Error(fmt::format("what the spike detector remembers cannot be read: {}", error.what()),
              ExitCode::damaged);
}

}  // namespace gpt
