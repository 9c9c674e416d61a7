#pragma once

#include "comm/world.hpp"
#include "train/console.hpp"
#include "train/device_choice.hpp"
#include "train/memory_estimate.hpp"
#include "train/memory_limits.hpp"
#include "train/options.hpp"
#include "train/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// What a rank needs, and what it may draw from.
struct MemoryDemand {
  int64_t bytes = 0;
  std::vector<MemoryPool> pools;
};

/// A pool and the ranks that draw from it.
struct MemoryUse {
  MemoryPool pool;  ///< with the least that one of them sees as available
  int64_t needed = 0;
  std::vector<int> ranks;

  bool fits() const { return needed <= pool.available; }
  double share() const;  ///< needed, of what is available
};

/// The pool that is nearest to its end, or furthest beyond; of no ranks where the system does not tell of
/// any.
/// @param demands  by rank
MemoryUse tightest(const std::vector<MemoryDemand>& demands);

std::string to_text(const MemoryDemand& demand);
/// Of what to_text wrote. @throws Error
MemoryDemand demand_from_text(const std::string& text);

/// "MemAvailable of /proc/meminfo on host n1: 12.0 GB needed by 4 ranks, 11.0 GB available of 16.0 GB"
std::string describe(const MemoryUse& use);

/// Whether a program lets its user divide the optimizer's state (--zero).
enum class StateDivision { possible, never };

/// What would make a rank's share smaller, and by how much, as far as there is anything.
/// @param sharers  ranks that draw from the memory that is short
std::vector<std::string> ways_out(const TrainOptions& options, const Plan& plan, const StatePlace& place,
                                  int threads, int64_t sharers,
                                  StateDivision division = StateDivision::possible);

/// What libraries were found to hold of a GPU.
struct LibraryUse {
  int64_t bytes = 0;
  int64_t free_before = 0;  ///< bytes that were free before they were there
};

/// What a rank that computes there needs, and what it may draw from: on the CPU the host's memory, on a GPU
/// the GPU's own.
/// @param given_back  bytes of the host's that checkpoints of earlier starts hold (left_in_memory)
MemoryDemand memory_demand(const World& world, const DeviceChoice& device, const MemoryEstimate& estimate,
                           int64_t given_back, const std::optional<LibraryUse>& libraries = {});

/// Before anything is written or allocated: says what the ranks need and may have. Returns what this rank
/// needs. Collective.
/// @param libraries  for GPUs once more, when that is known
/// @throws SharedError(usage) where that is less, unless --memory-check warn makes it a warning
MemoryEstimate check_memory(Console& console, const World& world, const DeviceChoice& device,
                            const TrainOptions& options, const Plan& plan,
                            StateDivision division = StateDivision::possible,
                            const std::optional<LibraryUse>& libraries = {});

}  // namespace gpt
