#include "bench/comm_measure.hpp"

#include "base/fault.hpp"
#include "base/stopwatch.hpp"
#include "bench/known_sums.hpp"
#include "bench/progress.hpp"

#include <algorithm>
#include <optional>

namespace gpt {
namespace {

/// A contender with its memory, which goes first.
struct Seat {
  std::unique_ptr<Contender> contender;
  TensorBuffer in, out;
  std::optional<bool> shared_in, shared_out;
};

/// Whether a drill wants a wrong result.
bool drilled() {
  try {
    fault_point("bench.sum");
    return false;
  } catch (const Error&) {
    return true;
  }
}

class Run {
public:
  Run(const World& world, Device& device, const CommBench& bench)
      : world_(world), bench_(bench), known_(world.rank(), world.size()) {
    const int64_t largest = *std::ranges::max_element(bench.sizes) / size_of(bench.dtype);
    for (const ContenderPlan& plan : bench.plans) {
      Seat& seat = seats_.emplace_back();
      seat.contender = make_contender(world, device, plan);
      Allocator* const own = seat.contender->allocator();
      Allocator& memory = own != nullptr ? *own : static_cast<Allocator&>(device);
      seat.in = TensorBuffer(memory, bench.dtype, {std::max<int64_t>(largest, 1)});
      seat.shared_in = is_seen_in_nodes(world, *seat.contender, seat.in);
      if (!bench.out_of_place) continue;
      seat.out = TensorBuffer(memory, bench.dtype, {std::max<int64_t>(largest, 1)});
      seat.shared_out = is_seen_in_nodes(world, *seat.contender, seat.out);
    }
  }

  /// Every contender with one size, all in place or none.
  std::vector<CommResult> measure(int64_t bytes, bool in_place) {
    const int64_t count = bytes / size_of(bench_.dtype);
    // The clock and the barrier before it are not negligible beside short messages.
    const int64_t batch = bench_.exact || bytes > (64 << 10) ? 1 : 16;
    std::vector<double> seconds;  // by iteration, then contender
    std::vector<int64_t> wrong(seats_.size(), 0);
    if (!bench_.exact)
      for (size_t i = 0; i < seats_.size(); ++i) {
        wrong[i] += checked(seats_[i], count, in_place, 1).wrong;
        for (int64_t k = 1; k < bench_.warmup; ++k) timed(seats_[i], count, in_place, batch);
      }
    for (int64_t k = 0; k < bench_.iterations; ++k)
      for (size_t i = 0; i < seats_.size(); ++i) {
        const Checked run = checked(seats_[i], count, in_place, batch);
        seconds.push_back(run.seconds);
        wrong[i] += run.wrong;
      }
    slowest_and_sum(seconds, wrong);

    std::vector<CommResult> results;
    for (size_t i = 0; i < seats_.size(); ++i) {
      CommResult& result = results.emplace_back(
          CommResult{.bytes = bytes,
                     .contender = seats_[i].contender->name(),
                     .in_place = in_place,
                     .times = {},
                     .wrong = wrong[i],
                     .shared_memory = in_place ? seats_[i].shared_in : seats_[i].shared_out});
      for (size_t k = i; k < seconds.size(); k += seats_.size()) result.times.add(seconds[k]);
    }
    return results;
  }

private:
  struct Checked {
    double seconds;
    int64_t wrong;
  };

  void prepare(const Seat& seat, Tensor out, Tensor in) const {
    switch (bench_.collective) {
      case Collective::all_reduce:
        if (out.raw() != in.raw()) KnownSums::spoil(out);
        [[fallthrough]];
      case Collective::reduce_scatter:
        return known_.fill(in);
      case Collective::all_gather: {
        known_.fill_with_sums(in);
        const std::vector<Range> given = seat.contender->given(in.size());
        int64_t at = 0;
        for (const Range& range : given) {
          if (range.empty()) continue;
          KnownSums::spoil(in.flat({at, range.begin}));
          at = range.end;
        }
        return KnownSums::spoil(in.flat({at, in.size()}));
      }
      case Collective::broadcast:
        return world_.is_root() ? known_.fill_with_sums(in) : KnownSums::spoil(in);
    }
  }

  /// Seconds of one of `batch` runs, one after the other.
  double timed(Seat& seat, int64_t count, bool in_place, int64_t batch) const {
    const Tensor in = seat.in->flat({0, count});
    const Tensor out = in_place ? in : seat.out->flat({0, count});
    world_.barrier();
    const Stopwatch watch;
    for (int64_t k = 0; k < batch; ++k) seat.contender->run(bench_.collective, out, in);
    return watch.seconds() / static_cast<double>(batch);
  }

  /// With fresh contents before; sums in place can be checked only where there was one run.
  Checked checked(Seat& seat, int64_t count, bool in_place, int64_t batch) const {
    const Tensor in = seat.in->flat({0, count});
    const Tensor out = in_place ? in : seat.out->flat({0, count});
    prepare(seat, out, in);
    const double seconds = timed(seat, count, in_place, batch);
    const bool sums =
        bench_.collective == Collective::all_reduce || bench_.collective == Collective::reduce_scatter;
    if (batch > 1 && in_place && sums) return {seconds, 0};
    if (count > 0 && drilled()) KnownSums::spoil(out.flat({0, 1}));
    int64_t wrong = 0;
    for (const auto& [at, first] : seat.contender->results(bench_.collective, count))
      if (!at.empty()) wrong += known_.wrong(out.flat(at), first);
    return {seconds, wrong};
  }

  void slowest_and_sum(std::vector<double>& seconds, std::vector<int64_t>& wrong) const {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE,
                            MPI_MAX, world_.world()));
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, wrong.data(), static_cast<int>(wrong.size()), MPI_INT64_T, MPI_SUM,
                            world_.world()));
  }

  const World& world_;
  const CommBench& bench_;
  KnownSums known_;
  std::vector<Seat> seats_;
};

}  // namespace

std::vector<CommResult> measure_comm(const World& world, Device& device, const CommBench& bench) {
  Run run(world, device, bench);
  const int64_t places = (bench.in_place ? 1 : 0) + (bench.out_of_place ? 1 : 0);
  Progress progress(world, "comm", std::ssize(bench.sizes) * places);
  std::vector<CommResult> all;
  for (const int64_t bytes : bench.sizes)
    for (const bool in_place : {false, true}) {
      if (in_place ? !bench.in_place : !bench.out_of_place) continue;
      const std::vector<CommResult> some = run.measure(bytes, in_place);
      all.insert(all.end(), some.begin(), some.end());
      progress(fmt::format("{} bytes, {} place", bytes, in_place ? "in" : "out of"));
    }
  return all;
}

}  // namespace gpt
