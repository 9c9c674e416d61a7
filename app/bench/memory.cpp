#include "bench/memory.hpp"

#include "base/stopwatch.hpp"
#include "bench/known_sums.hpp"
#include "bench/progress.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

/// a += b: two reads and one write an element.
void stream_add(Tensor a, Tensor b) {
  float* const to = a.data<float>();
  const float* const from = b.data<float>();
  const int64_t size = a.size();
  for (int64_t i = 0; i < size; ++i) to[i] += from[i];
}

/// Seconds of the slowest rank.
template <class Work>
double timed(const World& world, Work work) {
  world.barrier();
  const Stopwatch watch;
  work();
  double seconds = watch.seconds();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world.world()));
  return seconds;
}

/// The optimizer on parameters and moments in memory of the rank's own.
class OptimizerPass {
public:
  OptimizerPass(Device& device, int64_t count)
      : device_(device),
        queue_(device.make_queue()),
        p_(device, DType::f32, {count}),
        m_(device, DType::f32, {count}),
        v_(device, DType::f32, {count}),
        scalars_(device, DType::f64, {static_cast<int64_t>(StepScalar::count)}) {
    for (const Tensor& tensor : {Tensor(p_), Tensor(m_), Tensor(v_), Tensor(scalars_)}) queue_->zero(tensor);
    for (const StepScalar one : {StepScalar::clip_scale, StepScalar::accepted})
      scalars_->data<double>()[static_cast<int>(one)] = 1.0;
  }

  void operator()(Tensor gradients) {
    device_.ops().adamw(p_, {}, m_, v_, gradients, scalars_, {.lr = 1e-4F, .step = ++step_}, *queue_);
    queue_->synchronize();
  }

private:
  Device& device_;
  std::unique_ptr<Queue> queue_;
  TensorBuffer p_, m_, v_, scalars_;
  int64_t step_ = 0;
};

}  // namespace

MemoryResult measure_memory(const World& world, Device& device, const ContenderPlan& plan, int64_t bytes,
                            int64_t rounds) {
  const std::unique_ptr<Contender> own = make_contender(world, device, plan);
  const std::unique_ptr<Contender> library =
      make_contender(world, device, {.name = "mpi", .what = "mpi", .inter = "", .plan = {}});
  const int64_t count = bytes / size_of(DType::f32);
  Allocator* const supplied = own->allocator();
  Allocator& memory = supplied != nullptr ? *supplied : static_cast<Allocator&>(device);
  const TensorBuffer data(memory, DType::f32, {count});
  const TensorBuffer other(memory, DType::f32, {count});
  const TensorBuffer alone(device, DType::f32, {count});
  OptimizerPass optimize(device, count);
  const KnownSums known(world.rank(), world.size());

  MemoryResult result;
  result.bytes = bytes;
  result.ranks = world.size();
  result.shared = is_seen_in_nodes(world, *own, data).value_or(false);
  result.stream_bytes = 3 * bytes * world.size();
  const auto reduce = [&](Contender& contender, Collective collective) {
    known.fill(data);
    const double seconds = timed(world, [&] { contender.run(collective, data, data); });
    for (const auto& [at, first] : contender.results(collective, count))
      if (!at.empty()) result.wrong += known.wrong(data->flat(at), first);
    return seconds;
  };
  known.fill(other);
  known.fill(alone);
  Progress progress(world, "comm --memory", rounds + 1);
  for (int64_t round = 0; round <= rounds; ++round) {  // the first one touches and is not counted
    known.fill(data);
    const double stream = timed(world, [&] { stream_add(data, other); });
    const double scattered = reduce(*own, Collective::reduce_scatter);
    const double summed = reduce(*own, Collective::all_reduce);
    const double by_library = reduce(*library, Collective::all_reduce);
    const double optimized = timed(world, [&] { optimize(data); });
    const double optimized_alone = timed(world, [&] { optimize(alone); });
    progress(round == 0 ? "memory touched" : fmt::format("round {}", round));
    if (round == 0) continue;
    result.stream.add(stream);
    result.reduce_scatter.add(scattered);
    result.all_reduce.add(summed);
    result.library.add(by_library);
    result.optimizer.add(optimized);
    result.optimizer_alone.add(optimized_alone);
  }
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &result.wrong, 1, MPI_INT64_T, MPI_SUM, world.world()));
  return result;
}

void print_memory(const MemoryResult& result) {
  const auto row = [](const char* what, const Times& times) {
    fmt::print("  {:<36} {:>9.1f} ms median {:>9.1f} ms least", what, times.median() * 1e3,
               times.least() * 1e3);
  };
  const auto compared = [&](const char* what, const Times& times, double share) {
    row(what, times);
    if (result.shared) fmt::print(" {:>5.0f} % of the bandwidth", 100.0 * share);
    fmt::print(" {:>6.1f} x MPI_Allreduce\n", result.library.median() / times.median());
  };
  const char* const where = result.shared      ? "shared memory"
                            : result.ranks > 1 ? "memory of each rank's own: sums go by messages"
                                               : "its own memory: there is nothing to sum";
  fmt::print("memory: {} rank{} of one node, {} bytes in {}, {} wrong\n", result.ranks,
             result.ranks == 1 ? "" : "s", result.bytes, where, result.wrong);
  row("stream add, all ranks at once", result.stream);
  fmt::print(" {:>7.1f} GB/s, two reads and one write\n",
             static_cast<double>(result.stream_bytes) / result.stream.median() / 1e9);
  compared(result.shared ? "reduce_scatter, sums read in place" : "reduce_scatter", result.reduce_scatter,
           result.share_in_place());
  compared(result.shared ? "all_reduce, every copy written" : "all_reduce", result.all_reduce,
           result.share_copies());
  row("MPI_Allreduce", result.library);
  fmt::print("\n");
  if (result.shared) {
    row("AdamW, gradients in that memory", result.optimizer);
    fmt::print("\n");
  }
  row("AdamW, gradients in the rank's own", result.optimizer_alone);
  fmt::print("\n");
}

nlohmann::json memory_json(const MemoryResult& result) {
  const auto times = [](const Times& of) {
    return nlohmann::json{{"median_s", of.median()}, {"least_s", of.least()}, {"times_s", of.all}};
  };
  const auto where_shared = [&](double share) {
    return result.shared ? nlohmann::json(share) : nlohmann::json();
  };
  return {{"benchmark", "memory"},
          {"bytes", result.bytes},
          {"ranks", result.ranks},
          {"shared_memory", result.shared},
          {"stream_bytes", result.stream_bytes},
          {"stream", times(result.stream)},
          {"reduce_scatter", times(result.reduce_scatter)},
          {"all_reduce", times(result.all_reduce)},
          {"mpi_allreduce", times(result.library)},
          {"optimizer", times(result.optimizer)},
          {"optimizer_alone", times(result.optimizer_alone)},
          {"share_in_place", where_shared(result.share_in_place())},
          {"share_copies", where_shared(result.share_copies())},
          {"wrong", result.wrong}};
}

}  // namespace gpt
