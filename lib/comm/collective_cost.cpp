#include "comm/collective_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpt {
namespace {

bool is_power_of_two(int64_t value) { return std::has_single_bit(static_cast<uint64_t>(value)); }

/// Lower bound of bytes that a rank sends and receives in a sum over p, relative to the message.
double spread(int64_t p) { return static_cast<double>(p - 1) / static_cast<double>(p); }

double share_on_wire(DType wire) { return static_cast<double>(size_of(wire)) / size_of(DType::f32); }

/// seconds = fixed + messages·α + bytes·β; both sides of a weighted normal equation.
struct Moments {
  double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;

  explicit Moments(std::span<const CostSample> samples) {
    for (const CostSample& sample : samples) {
      const double a = sample.terms.messages / sample.seconds;
      const double b = sample.terms.bytes / sample.seconds;
      const double y = (sample.seconds - sample.fixed) / sample.seconds;
      aa += a * a;
      ab += a * b;
      bb += b * b;
      ay += a * y;
      by += b * y;
    }
  }
};

}  // namespace

CostTerms ring_reduce_scatter(int64_t p, double bytes) {
  return {static_cast<double>(p - 1), spread(p) * bytes};
}

CostTerms ring_all_reduce(int64_t p, double bytes) {
  const CostTerms half = ring_reduce_scatter(p, bytes);
  return {2 * half.messages, 2 * half.bytes};
}

CostTerms halving_all_reduce(int64_t p, double bytes) {
  expects(is_power_of_two(p));
  return {2.0 * std::log2(static_cast<double>(p)), 2 * spread(p) * bytes};
}

CostTerms doubling_all_reduce(int64_t p, double bytes) {
  const double rounds = std::ceil(std::log2(static_cast<double>(p)));
  return {rounds, rounds * bytes};
}

CostTerms library_all_reduce(int64_t p, double bytes, const Link& link) {
  const auto cheaper = [&](const CostTerms& a, const CostTerms& b) {
    return a.seconds(link) <= b.seconds(link) ? a : b;
  };
  const CostTerms simple = cheaper(ring_all_reduce(p, bytes), doubling_all_reduce(p, bytes));
  return is_power_of_two(p) ? cheaper(halving_all_reduce(p, bytes), simple) : simple;
}

HopTerms all_reduce_terms(const Cluster& cluster, const CommPlan& plan, double bytes) {
  expects(cluster.nodes >= 1 && cluster.ranks_per_node >= 1 && bytes >= 0);
  if (plan.reduction == Reduction::flat) {
    const CostTerms ring = ring_all_reduce(cluster.ranks(), bytes);
    return cluster.nodes > 1 ? HopTerms{.intra = {}, .inter = ring} : HopTerms{.intra = ring, .inter = {}};
  }
  const double inside = bytes * share_on_wire(plan.wire_node);
  const double between = bytes * share_on_wire(plan.wire_peers);
  const Inter inter = plan.inter_of_sums(DType::f32);
  validate_fits(inter, cluster.nodes);
  const CommPlan::Blocks blocks = plan.blocks_over(inter, cluster.nodes);
  const double lane_blocks =
      bytes / static_cast<double>(cluster.ranks_per_node) / static_cast<double>(blocks.bytes);
  const int64_t overlapping = blocks.under_way > 1 ? std::llround(std::ceil(lane_blocks)) : 1;
  return {.intra = ring_all_reduce(cluster.ranks_per_node, inside),
          .inter = way_of(inter).cost(cluster.nodes, between, cluster.inter),
          .blocks = std::max<int64_t>(1, overlapping)};
}

double all_reduce_seconds(const Cluster& cluster, const CommPlan& plan, double bytes) {
  const HopTerms terms = all_reduce_terms(cluster, plan, bytes);
  const double intra = terms.intra.seconds(cluster.intra);
  const double inter = terms.inter.seconds(cluster.inter);
  return std::max(intra, inter) + std::min(intra, inter) / static_cast<double>(terms.blocks);
}

Link fit_link(std::span<const CostSample> samples) {
  const Moments m(samples);
  validate(m.bb > 0.0, "no message among the measurements that travels: measure two ranks or nodes at least");
  const double determinant = m.aa * m.bb - m.ab * m.ab;
  // Of messages of one size alone the two constants cannot be told apart.
  if (determinant > 1e-9 * m.aa * m.bb) {
    const Link link{(m.ay * m.bb - m.by * m.ab) / determinant, (m.by * m.aa - m.ay * m.ab) / determinant};
    if (link.latency >= 0.0 && link.seconds_per_byte >= 0.0) return link;
    if (link.seconds_per_byte < 0.0) return {std::max(0.0, m.ay / m.aa), 0.0};
  }
  return {0.0, std::max(0.0, m.by / m.bb)};
}

double worst_error(std::span<const CostSample> samples, const Link& link) {
  double worst = 0.0;
  for (const CostSample& sample : samples)
    worst = std::max(worst,
                     std::abs(sample.fixed + sample.terms.seconds(link) - sample.seconds) / sample.seconds);
  return worst;
}

}  // namespace gpt
