#pragma once

#include "bench/times.hpp"
#include "comm/world.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

struct SaveBench {
  std::string preset;
  GptConfig config;
  std::string folder;  ///< in which a folder of its own is made, and removed
  int64_t micro_batch = 4;
  int threads = 1;
  bool sharded = false;  ///< ZeRO-1
  int64_t steps = 0;     ///< a round, without a save beside them; 0: no steps are measured
  int64_t rounds = 5;
};

/// Seconds, of the slowest rank.
struct SaveResult {
  int ranks = 1;
  int nodes = 1;
  int64_t state_bytes = 0;   ///< in a checkpoint
  int64_t file_bytes = 0;    ///< of a checkpoint
  int64_t copied_bytes = 0;  ///< of the state by this rank before the save goes on beside training
  Times save;                ///< a checkpoint, from the copies of the state until it has its name
  Times plain;               ///< as many bytes of state, each rank's part by itself into one file, and fsync
  Times stall;               ///< training stands still for a save
  Times copy;                ///< a memory copy of what is copied then
  Times step;                ///< a step
  Times step_beside;         ///< a step while a checkpoint is written
  Times save_beside;         ///< a checkpoint while steps compute

  /// Bandwidth of checkpoints over that of plain writes.
  double share() const { return plain.median() / save.median(); }
  double least_share() const { return plain.least() / save.least(); }
  double stall_over_copy() const { return stall.median() / copy.median(); }
  double slowdown() const { return step_beside.median() / step.median(); }
};

/// In turns, `rounds` times and once before that does not count. Collective over the world, whose ranks all
/// see the folder; complete on the root. @throws Error where a file cannot be written
SaveResult measure_saves(const World& world, const SaveBench& bench);

void print_saves(const SaveBench& bench, const SaveResult& result);
nlohmann::json saves_json(const SaveBench& bench, const SaveResult& result);

}  // namespace gpt
