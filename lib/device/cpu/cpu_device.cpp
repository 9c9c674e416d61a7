#include "base/error.hpp"
#include "base/signals.hpp"
#include "base/thread.hpp"
#include "device/cpu/cpu_ops.hpp"
#include "device/cpu/cpu_queue.hpp"
#include "device/cpu/flush_to_zero.hpp"
#include "device/cpu/huge_pages.hpp"
#include "device/cpu/instruction_set.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <numeric>
#include <omp.h>
#include <sched.h>
#include <thread>
#include <vector>

namespace gpt {
namespace {

/// How many threads OpenMP really gives when `threads` are asked for: OMP_THREAD_LIMIT and the like may hold
/// them back. Each of them flushes denormals to zero from now on.
int start_team(int threads) {
  int given = 1;
  omp_set_dynamic(0);
  // Where OpenMP gets no thread it ends the program, with a message that helps nobody.
  require_threads("computing", std::min(threads, omp_get_thread_limit()) - 1);
#pragma omp parallel num_threads(threads)
  {
    flush_denormals_to_zero();
    use_signal_stack();
#pragma omp master
    given = omp_get_num_threads();
  }
  return given;
}

class CpuDevice : public Device {
public:
  // Work and oneDNN's plans are cut for the threads that are there: oneDNN's results are wrong with fewer.
  explicit CpuDevice(int threads) : asked_(threads), threads_(start_team(threads)), ops_(threads_, *this) {}

  void* allocate(int64_t bytes) override { return allocate_pages(bytes, threads_); }
  void release(void* data, int64_t bytes) override { release_pages(data, bytes); }

  std::string name() const override {
    const std::string held_back =
        threads_ < asked_ ? fmt::format(" (of {}, OpenMP gives no more)", asked_) : "";
    return fmt::format("CPU, {} thread{}{}, {}, {}", threads_, threads_ == 1 ? "" : "s", held_back,
                       instruction_set(), product_library());
  }
  bool multiplies(DType type) const override {
    return type == DType::f32 || (type == DType::bf16 && has_bfloat16_instructions());
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(threads_); }
  std::unique_ptr<Queue> make_communication_queue() override { return make_worker_queue(); }
  std::unique_ptr<Queue> make_copy_queue() override { return make_queue(); }
  Allocator& host_memory() override { return *this; }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  std::unique_ptr<TimedEvent> make_timed_event() override { return std::make_unique<CpuEvent>(); }
  Ops& ops() override { return ops_; }
  void reserve(Queue&, const ScratchShape&) override {}

private:
  int asked_;
  int threads_;
  CpuOps ops_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  constexpr int most = 4096;
  validate(threads >= 1 && threads <= most, "--threads {} is out of range: use 1 to {}", threads, most);
  return std::make_unique<CpuDevice>(threads);
}

std::vector<int> usable_cores() {
  // A fixed cpu_set_t ends at 1024 cores; the kernel refuses masks smaller than its own.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(capacity) / sizeof(cpu_set_t));
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) != 0) continue;
    std::vector<int> cores;
    for (int core = 0; core < capacity; ++core)
      if (CPU_ISSET_S(core, bytes, mask.data())) cores.push_back(core);
    return cores;
  }
  std::vector<int> all(std::max(std::thread::hardware_concurrency(), 1U));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace gpt
