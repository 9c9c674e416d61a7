// all_reduce_probe MIB REPETITIONS WAY…: sums of fp32 tensors of MIB MiB over all ranks, checked, the ways
// taking turns. WAY: "library" (MPI_Allreduce alone) or reduction:inter:wire as gpt_mpi's options name them
// ("hierarchical:ring:fp32,bf16"). Rank 0 prints JSON: by way the seconds of every repetition, of the slowest
// rank.
#include "base/error.hpp"
#include "comm/comm.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/comm_plan.hpp"
#include "train/options.hpp"

#include <array>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpt {
namespace {

// Integers of which bf16 holds sums over up to 8 ranks. They repeat, not at the multiples at which tensors
// are cut.
constexpr int64_t period = 17;
float value(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 5) % period - 8); }

class Way {
public:
  Way(const std::string& text, int64_t count, const World& world, Device& device)
      : world_(world), queue_(device.make_communication_queue()) {
    for (int64_t i = 0; i < period; ++i) {
      own_[static_cast<size_t>(i)] = value(world.rank(), i);
      for (int rank = 0; rank < world.size(); ++rank) sums_[static_cast<size_t>(i)] += value(rank, i);
    }
    if (text != "library") comm_ = make_comm(world, plan(text));
    Allocator* const windows = comm_ ? comm_->allocator() : nullptr;
    data_ = TensorBuffer(windows ? *windows : device, DType::f32, {count});
  }

  /// Seconds until the last rank had the sums.
  double operator()() {
    const auto values = data_->data<float>();
    for (int64_t i = 0; i < data_->size(); ++i) values[i] = own_[static_cast<size_t>(i % period)];
    world_.barrier();
    const auto start = std::chrono::steady_clock::now();
    if (comm_) {
      comm_->all_reduce(data_, data_, *queue_);
      queue_->synchronize();
    } else {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(data_->size()), MPI_FLOAT, MPI_SUM,
                              world_.world()));
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    int64_t wrong = 0;
    for (int64_t i = 0; i < data_->size(); ++i)
      if (values[i] != sums_[static_cast<size_t>(i % period)]) ++wrong;
    validate(wrong == 0, ExitCode::failed, "{} sums are wrong", wrong);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world_.world()));
    return seconds;
  }

private:
  static CommPlan plan(const std::string& text) {
    const size_t first = text.find(':');
    const size_t second = text.find(':', first + 1);
    validate(second != std::string::npos, ExitCode::usage, "way '{}': write library or reduction:inter:wire",
             text);
    TrainOptions options;
    options.reduction = text.substr(0, first);
    options.inter = text.substr(first + 1, second - first - 1);
    options.wire = text.substr(second + 1);
    return comm_plan(options);
  }

  const World& world_;
  std::unique_ptr<Comm> comm_;
  std::unique_ptr<Queue> queue_;
  TensorBuffer data_;
  std::array<float, period> own_{}, sums_{};  // by position modulo the period
};

int run(World& world, int argc, char** argv) {
  validate(argc > 3, ExitCode::usage, "all_reduce_probe MIB REPETITIONS WAY...");
  world.set_layout({});
  const int64_t count = (std::stoll(argv[1]) << 20) / size_of(DType::f32);
  const auto device = make_cpu_device(1);
  std::vector<std::unique_ptr<Way>> ways;
  for (int i = 3; i < argc; ++i) ways.push_back(std::make_unique<Way>(argv[i], count, world, *device));

  nlohmann::json seconds = nlohmann::json::object();
  for (int64_t repetition = std::stoll(argv[2]); repetition > 0; --repetition)
    for (size_t i = 0; i < ways.size(); ++i) seconds[argv[3 + i]].push_back((*ways[i])());
  if (world.is_root()) std::cout << seconds.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) { return gpt::run_program(argc, argv, gpt::run); }
