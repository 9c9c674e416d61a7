#pragma once

#include "bench/contender.hpp"
#include "bench/times.hpp"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace gpt {

/// Sums in the memory of one node beside what its memory allows.
struct MemoryResult {
  int64_t bytes = 0;         ///< of the message
  int ranks = 0;             ///< of the node
  bool supplied = false;     ///< the Comm supplied the memory
  int64_t stream_bytes = 0;  ///< read and written by all ranks together in one `stream`
  Times stream;              ///< two reads and one write, all ranks at once
  Times reduce_scatter;      ///< sums read in place: every rank reads all its slices and writes one
  Times all_reduce;          ///< every rank's copy written
  Times library;             ///< MPI_Allreduce
  int64_t wrong = 0;

  double bandwidth() const { return static_cast<double>(stream_bytes) / stream.least(); }
  /// Seconds at that bandwidth: p slices read and one written by each of p ranks, p copies written by each.
  double allowed_in_place() const { return static_cast<double>(bytes) * (ranks + 1) / bandwidth(); }
  double allowed_copies() const { return static_cast<double>(bytes) * 2 * ranks / bandwidth(); }
};

/// In turns, `rounds` times. Collective over the world, whose ranks must be on one node; same on all ranks.
MemoryResult measure_memory(const World& world, Device& device, const ContenderPlan& plan, int64_t bytes,
                            int64_t rounds);

void print_memory(const MemoryResult& result);
nlohmann::json memory_json(const MemoryResult& result);

}  // namespace gpt
