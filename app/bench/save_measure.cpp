#include "base/error.hpp"
#include "base/stopwatch.hpp"
#include "bench/own_step.hpp"
#include "bench/plain_write.hpp"
#include "bench/progress.hpp"
#include "bench/save.hpp"
#include "data/file_io.hpp"
#include "train/comm_plan.hpp"
#include "train/saver.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

namespace gpt {
namespace {

double slowest(const World& world, double seconds) {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world.world()));
  return seconds;
}

bool on_all(const World& world, bool condition) {
  int all = condition ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, world.world()));
  return all != 0;
}

/// A folder of the job's own, gone with everything in it when the object is.
class JobFolder {
public:
  JobFolder(const World& world, const std::string& parent) : mine_(world.is_root()) {
    world.everywhere([&] {
      if (!mine_) return;
      path_ = parent + "/gpt_bench-save-XXXXXX";
      const int failure = mkdtemp(path_.data()) != nullptr ? 0 : errno;
      validate(failure == 0, "--folder {}: cannot make a folder there: {}", parent,
               std::generic_category().message(failure));
    });
    path_ = world.broadcast(path_);
  }
  ~JobFolder() {
    std::error_code ignored;
    if (mine_) std::filesystem::remove_all(path_, ignored);
  }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& path() const { return path_; }

private:
  bool mine_;
  std::string path_;
};

StepSetup setup_of(const World& world, const SaveBench& bench) {
  TrainOptions options = fixed_plan();
  if (bench.sharded) options.zero = "1";
  return {.config = bench.config,
          .sequences = bench.micro_batch,
          .micro_batch = bench.micro_batch,
          .global_batch = bench.micro_batch * world.size(),
          .threads = bench.threads,
          .plan = comm_plan(options),
          .sharded = bench.sharded};
}

/// By `threads` threads, each its part.
void copy_memory(Tensor to, Tensor from, int threads) {
  std::vector<std::jthread> helpers;
  for (int thread = 0; thread < threads; ++thread) {
    const Range part = part_of(from.size(), threads, thread);
    const auto copy = [target = to.flat(part), source = from.flat(part)] {
      std::memcpy(target.raw(), source.raw(), static_cast<size_t>(source.bytes()));
    };
    if (thread + 1 < threads)
      helpers.emplace_back(copy);
    else
      copy();
  }
}

class Measurement {
public:
  Measurement(const World& world, const SaveBench& bench)
      : world_(world),
        bench_(bench),
        folder_(world, bench.folder),
        step_(world, setup_of(world, bench)),
        part_(checkpoint_part(step_.layout(), world.size(), world.rank())),
        copies_(step_.saved_parts()),
        memory_(static_cast<size_t>(part_.size())),
        saver_(world, world.duplicate(), {.folder = folder_.path(), .keep = 1, .verify = false},
               step_.layout(), step_.saved_parts()) {
    step_(Reducing::overlapped);  // moments that are not zero, and the first touch of everything
    step_.settle();
    copies_.take(step_.state(), step_.queue());
    copies_.wait();
    result_.ranks = world.size();
    result_.nodes = world.nodes();
    const int64_t states = std::ssize(copies_.state());
    result_.state_bytes = states * step_.layout().size() * size_of(DType::f32);
    result_.copied_bytes = states * part_.size() * size_of(DType::f32);
  }

  void round(int64_t number, bool counts) {
    SaveResult& to = counts ? result_ : ignored_;
    if (number % 2 == 0) save(to);
    write_plain(to);
    if (number % 2 != 0) save(to);
    copy(to);
    if (bench_.steps > 0) compute(to);
  }

  const SaveResult& result() const { return result_; }

private:
  /// Seconds of what training notices of it.
  double begin_save() {
    CheckpointHeader header;
    header.step = ++saves_;
    header.run_id = 1;
    header.model = bench_.config;
    world_.barrier();
    const Stopwatch watch;
    saver_.begin(header, step_.state(), step_.queue());
    saver_.protect(step_.queue());
    return slowest(world_, watch.seconds());
  }

  /// Seconds from the copies to the finished file.
  double end_save() {
    const SaveEnd end = saver_.wait();
    if (!end.failure.empty()) throw SharedError(end.failure, ExitCode::saving_failed, end.rank);
    world_.everywhere([&] {
      if (world_.is_root()) result_.file_bytes = static_cast<int64_t>(std::filesystem::file_size(end.file));
    });
    return slowest(world_, end.seconds);
  }

  void save(SaveResult& to) {
    step_.settle();
    to.stall.add(begin_save());
    to.save.add(end_save());
  }

  void write_plain(SaveResult& to) {
    const std::string file = folder_.path() + "/plain";
    world_.everywhere([&] {
      if (!world_.is_root()) return;
      const FileHandle made(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      validate(static_cast<bool>(made), ExitCode::failed, "cannot make {}: {}", file,
               std::generic_category().message(errno));
    });
    world_.barrier();
    const Stopwatch watch;
    write_plainly(world_, file, copies_.state(), part_, step_.layout().size());
    to.plain.add(slowest(world_, watch.seconds()));
    world_.everywhere([&] {
      if (world_.is_root()) std::filesystem::remove(file);
    });
  }

  void copy(SaveResult& to) {
    const Tensor target(memory_.data(), DType::f32, {part_.size()});
    world_.barrier();
    const Stopwatch watch;
    for (const StateTensor& tensor : copies_.state()) copy_memory(target, tensor.data, bench_.threads);
    to.copy.add(slowest(world_, watch.seconds()));
  }

  /// Steps alone, then as many as it takes until a save is over.
  void compute(SaveResult& to) {
    step_.settle();
    world_.barrier();
    for (int64_t i = 0; i < bench_.steps; ++i)
      to.step.add(slowest(world_, step_(Reducing::overlapped).seconds));
    step_.settle();
    begin_save();
    do to.step_beside.add(slowest(world_, step_(Reducing::overlapped).seconds));
    while (!on_all(world_, saver_.has_ended()));
    step_.settle();
    to.save_beside.add(end_save());
  }

  const World& world_;
  const SaveBench& bench_;
  const JobFolder folder_;
  OwnStep step_;
  const Range part_;   // of every flat tensor, this rank's
  SavedParts copies_;  // what plain writes write and memory copies copy
  std::vector<float> memory_;
  Saver saver_;
  int64_t saves_ = 0;
  SaveResult result_, ignored_;
};

}  // namespace

SaveResult measure_saves(const World& world, const SaveBench& bench) {
  Measurement measurement(world, bench);
  Progress progress(world, "save", bench.rounds + 1);
  for (int64_t round = 0; round <= bench.rounds; ++round) {
    measurement.round(round, round > 0);
    progress(round == 0 ? "disk warmed" : fmt::format("round {}", round));
  }
  return measurement.result();
}

}  // namespace gpt
