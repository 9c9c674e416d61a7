#include "bench/scaling.hpp"
#include "train/step_model.hpp"

#include <algorithm>
#include <numeric>

namespace gpt {

double ScalingPoint::communication() const {
  return ranks == 1 ? 0.0 : std::max(0.0, afterwards.median() - none.median());
}

double ScalingPoint::exposed() const {
  return ranks == 1 ? 0.0 : std::max(0.0, overlapped.median() - none.median());
}

double ScalingPoint::hideable() const {
  // The embeddings, last in the order, are complete when backward ends.
  const auto all =
      static_cast<double>(std::accumulate(section_bytes.begin(), section_bytes.end(), int64_t{0}));
  const double before = all - static_cast<double>(section_bytes.back());
  return std::max(0.0, communication() * before / all - thread.median());
}

std::optional<double> ScalingPoint::hidden_share() const {
  if (none.all.size() < 2) return std::nullopt;
  const double noise = std::max({none.deviation(), afterwards.deviation(), overlapped.deviation()});
  if (hideable() < std::max({1e-3, none.median() / 100, 4 * noise})) return std::nullopt;
  return (communication() - exposed()) / hideable();
}

double ScalingPoint::least_exposed() const {
  const auto all =
      static_cast<double>(std::accumulate(section_bytes.begin(), section_bytes.end(), int64_t{0}));
  std::vector<double> moments = ready;
  std::ranges::sort(moments);
  std::vector<Message> messages;
  for (size_t i = 0; i < moments.size(); ++i)
    messages.push_back({moments[i], communication() * static_cast<double>(section_bytes[i]) / all});
  return std::max(0.0, pipeline_end(messages) - backward);
}

double efficiency(const ScalingPoint& point, const ScalingPoint& first) {
  Times shares;
  for (size_t i = 0; i < point.overlapped.all.size(); ++i) {
    const auto speed = [i](const ScalingPoint& of) {
      return static_cast<double>(of.tokens) / of.overlapped.all[i] / of.ranks;
    };
    shares.add(speed(point) / speed(first));
  }
  return shares.median();
}

}  // namespace gpt
