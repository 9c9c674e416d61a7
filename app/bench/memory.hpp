#pragma once

#include "bench/contender.hpp"
#include "bench/times.hpp"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace gpt {

/// Sums in the memory of one node beside what its memory allows.
class MemoryResult {
public:
  int64_t bytes = 0;         ///< of the message
  int ranks = 0;             ///< of the node
  bool shared = false;       ///< the ranks see each other's messages; else they send them
  int64_t stream_bytes = 0;  ///< read and written by all ranks together in one `stream`
  Times stream;              ///< two reads and one write, all ranks at once
  Times reduce_scatter;      ///< sums read in place: every rank reads all its slices and writes one
  Times all_reduce;          ///< every rank's copy written
  Times library;             ///< MPI_Allreduce
  Times optimizer;           ///< AdamW over gradients in the memory that the Comm supplied
  Times optimizer_alone;     ///< over gradients in the device's memory
  int64_t wrong = 0;

  /// Where memory is shared: share of a run's time that its bytes take at the bandwidth of `stream`, medians
  /// of both. In place, each of p ranks reads p slices and writes one; else it writes p copies of its slice.
  double share_in_place() const { return share(ranks + 1, reduce_scatter); }
  double share_copies() const { return share(2 * ranks, all_reduce); }

private:
  double share(int messages, const Times& times) const {
    const double allowed = static_cast<double>(bytes) * messages / static_cast<double>(stream_bytes);
    return allowed * stream.median() / times.median();
  }
};

/// In turns, `rounds` times. Collective over the world, whose ranks must be on one node; same on all ranks.
MemoryResult measure_memory(const World& world, Device& device, const ContenderPlan& plan, int64_t bytes,
                            int64_t rounds);

void print_memory(const MemoryResult& result);
nlohmann::json memory_json(const MemoryResult& result);

}  // namespace gpt
