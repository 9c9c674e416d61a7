#pragma once

#include "device/buffer.hpp"
#include "device/ops.hpp"
#include "device/queue.hpp"
#include "device/timed_event.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpt {

struct ScratchShape;

/// A place that computes: its memory, its queues, its operations.
class Device : public Allocator {
public:
  /// For people: "CPU, 2 threads, AVX-512, oneDNN 2.6.3 with AVX512_BF16"; and all that decides the bits of
  /// results.
  virtual std::string name() const = 0;
  /// Whether it has instructions for products of that type, which are then the faster the smaller the type.
  virtual bool multiplies(DType type) const = 0;
  virtual std::unique_ptr<Queue> make_queue() = 0;
  /// For work that goes on beside the compute queue's: on the CPU it has its own thread.
  virtual std::unique_ptr<Queue> make_communication_queue() = 0;
  /// For copies of large tensors beside the compute queue's work: on the CPU they are done as they are given,
  /// by all threads.
  virtual std::unique_ptr<Queue> make_copy_queue() = 0;
  /// Host memory between which and the device copies are fast, and do not make the host wait: on a GPU
  /// pinned, on the CPU its own.
  virtual Allocator& host_memory() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// For measuring: one that is only waited for is cheaper without its time.
  virtual std::unique_ptr<TimedEvent> make_timed_event() = 0;
  virtual Ops& ops() = 0;
  /// Takes now what operations of such a step need on `queue` beside their tensors, so that no step takes
  /// memory. Nothing where operations share it (CPU). @throws Error if there is not so much
  virtual void reserve(Queue& queue, const ScratchShape& shape) = 0;
};

/// The CPU with `threads` OpenMP threads, or as many of them as OpenMP gives; huge pages where the system
/// gives them.
std::unique_ptr<Device> make_cpu_device(int threads);

/// The cores that this process may run on, ascending: its affinity mask. At least one.
std::vector<int> usable_cores();

/// "compiled 2.6.3, loaded 2.6.3": the library of matrix products.
std::string math_library_version();

}  // namespace gpt
