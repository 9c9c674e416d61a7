#pragma once

#include "train/memory_check.hpp"
#include "train/preflight_gpu.hpp"
#include "train/preflight_network.hpp"
#include "train/preflight_space.hpp"

#include <cstdint>
#include <string>

namespace gpt {

/// What a rank found at its own place, and tells rank 0.
struct RankLook {
  std::string name;              ///< of its node
  std::string fingerprint;       ///< of the dataset; empty: there is a problem
  std::string dataset_problem;   ///< empty: none
  std::string plan_problem;      ///< why there is nothing to train for this rank
  MemoryDemand memory;           ///< 0 bytes needed where there is no plan
  int64_t host_memory = 0;       ///< bytes that are available to it, of the host's
  int64_t checkpoint_bytes = 0;  ///< of one; 0 where none is saved, or its size is not known
  Space run, shared;
  GpuLook gpu;
  NodeBandwidth bandwidth;
};

std::string to_text(const RankLook& look);
/// Of what to_text wrote. @throws Error
RankLook look_from_text(const std::string& text);

}  // namespace gpt
