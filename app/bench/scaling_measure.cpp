#include "bench/progress.hpp"
#include "bench/scaling.hpp"

#include <chrono>
#include <thread>

namespace gpt {
namespace {

/// Waits for all ranks without taking a core from those that still work.
void meet_asleep(const World& world) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(world.world(), &request));
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

StepSetup setup_of(const ScalingBench& bench, const World& part, ScalingKind kind) {
  const int64_t global = kind == ScalingKind::weak ? bench.micro_batch * part.size() : bench.global_batch;
  return {.config = bench.config,
          .sequences = part_of(global, part.size(), part.rank()).size(),
          .micro_batch = bench.micro_batch,
          .global_batch = global,
          .threads = bench.threads,
          .plan = bench.plan,
          .bucket_bytes = bench.bucket_bytes,
          .type = bench.type,
          .sharded = bench.sharded};
}

/// One round of one point: means over its steps, of the slowest rank.
void measure_round(const World& part, const ScalingBench& bench, ScalingPoint& point) {
  const StepSetup setup = setup_of(bench, part, point.kind);
  OwnStep step(part, setup);
  point.nodes = part.nodes();
  point.tokens = setup.global_batch * setup.config.context;
  point.section_bytes = step.section_bytes();
  point.grad_norm = step(Reducing::overlapped).grad_norm;  // first touch and creation of primitives, too

  const auto block = [&](Reducing how, Times& seconds, Times* thread) {
    step.settle();
    part.barrier();
    double sums[2] = {0.0, 0.0};
    for (int64_t i = 0; i < bench.steps; ++i) {
      const OwnStep::Took took = step(how);
      sums[0] += took.seconds;
      sums[1] += took.other_threads;
      if (how != Reducing::none) continue;
      const double share = 1.0 / static_cast<double>(bench.steps * bench.rounds);
      point.ready.resize(took.ready.size());
      for (size_t k = 0; k < took.ready.size(); ++k) point.ready[k] += share * took.ready[k];
      point.backward += share * took.backward;
    }
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_MAX, part.world()));
    seconds.add(sums[0] / static_cast<double>(bench.steps));
    if (thread != nullptr) thread->add(sums[1] / static_cast<double>(bench.steps));
  };
  block(Reducing::overlapped, point.overlapped, &point.thread);
  if (part.size() == 1) return;
  block(Reducing::afterwards, point.afterwards, nullptr);
  block(Reducing::none, point.none, nullptr);
}

}  // namespace

std::vector<ScalingPoint> measure_scaling(const World& world, const ScalingBench& bench) {
  std::vector<std::unique_ptr<World>> parts;
  for (const int ranks : bench.ranks) parts.push_back(world.first(ranks));
  std::vector<ScalingPoint> points;
  for (const ScalingKind kind : bench.kinds)
    for (const int ranks : bench.ranks) {
      ScalingPoint& point = points.emplace_back();
      point.kind = kind;
      point.ranks = ranks;
    }

  Progress progress(world, "scaling", bench.rounds * std::ssize(points));
  for (int64_t round = 0; round < bench.rounds; ++round)
    for (size_t i = 0; i < points.size(); ++i) {
      const std::unique_ptr<World>& part = parts[i % parts.size()];
      try {
        if (part) measure_round(*part, bench, points[i]);
      } catch (const SharedError& error) {
        throw Error(error.what(), error.code());  // the ranks outside the part do not hold it
      }
      meet_asleep(world);
      const ScalingPoint& point = points[i];
      if (world.is_root())
        progress(fmt::format("round {}, {}, {} rank{}: {:.1f} ms a step", round + 1, name_of(point.kind),
                             point.ranks, point.ranks == 1 ? "" : "s", point.overlapped.all.back() * 1e3));
    }
  return points;
}

}  // namespace gpt
