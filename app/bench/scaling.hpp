#pragma once

#include "bench/own_step.hpp"
#include "bench/times.hpp"
#include "comm/world.hpp"

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// Whether the batch of a rank or that of the job stays the same.
enum class ScalingKind { weak, strong };
const char* name_of(ScalingKind kind);

struct ScalingBench {
  std::string preset;
  GptConfig config;
  std::vector<ScalingKind> kinds;
  std::vector<int> ranks;  ///< ascending; the first is what the others are compared with
  int64_t micro_batch = 4;
  int64_t global_batch = 4;  ///< strong
  int threads = 1;
  DType type = DType::f32;  ///< of activations and what matrix products read
  CommPlan plan;
  std::string plan_name;
  int64_t bucket_bytes = TrainOptions{}.bucket_bytes();
  bool sharded = false;  ///< ZeRO-1
  int64_t steps = 3;     ///< a round, of each kind of Reducing
  int64_t rounds = 5;
};

/// What some ranks did, by round; of the slowest rank.
struct ScalingPoint {
  ScalingKind kind = ScalingKind::weak;
  int ranks = 1;
  int nodes = 1;
  int64_t tokens = 0;                  ///< a step
  Times overlapped, afterwards, none;  ///< seconds of a step
  Times thread;                        ///< CPU seconds of communication, a step, overlapped
  std::vector<double> ready;           ///< root's mean without communication: by section, and for the whole
  double backward = 0.0;               ///< of backward, seconds from the last micro-batch's begin on
  std::vector<int64_t> section_bytes;
  double grad_norm = 0.0;  ///< of the first step; weak: the same at every rank count, but for rounding

  // Differences of medians of steps: 0 where noise makes them negative.
  double communication() const;  ///< seconds that it takes after backward
  double exposed() const;        ///< seconds that are left of it when it overlaps
  /// Seconds that could be hidden: of the bytes announced before backward ended, less what the thread
  /// computes itself.
  double hideable() const;
  /// Of what could be hidden; none where noise may be more than that: with one round, or below a millisecond,
  /// a hundredth of a step without communication, or four times the deviation of any kind of step.
  std::optional<double> hidden_share() const;
  /// Seconds that would be left if every section travelled from the moment it was complete.
  double least_exposed() const;
};

/// Parts of the world, one after the other, again and again; the other ranks sleep. Collective over the
/// world; complete on the root.
std::vector<ScalingPoint> measure_scaling(const World& world, const ScalingBench& bench);

/// Speed of a point over that of the first of its kind, as a share of what the ranks would allow: the median
/// over the rounds.
double efficiency(const ScalingPoint& point, const ScalingPoint& first);

void print_scaling(const ScalingBench& bench, const std::vector<ScalingPoint>& points);
nlohmann::json scaling_json(const ScalingBench& bench, const std::vector<ScalingPoint>& points);
/// @throws Error(usage) where there is no gnuplot to draw `path` with
void require_gnuplot(const std::string& path);
/// An SVG of tokens per second over ranks, by gnuplot, which is there. @throws Error where that fails
void plot_scaling(const std::string& path, const std::vector<ScalingPoint>& points);

}  // namespace gpt
