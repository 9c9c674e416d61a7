#pragma once

#include "comm/comm_session.hpp"
#include "device/device.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace gpt {

struct NcclSettings {
  double timeout = 120.0;                  ///< seconds that NCCL may take to connect, and the first sum
  int64_t test_bytes = int64_t{32} << 20;  ///< of the all-reduce that is tried at the start
};

/// NCCL for the memory of `device`, a GPU; every rank of the world has one of its own. Before NCCL is asked
/// for anything its version, CUDA's and the settings that must agree are compared over the ranks; at the end
/// an all-reduce is tried, and what it took is said. From then on the world's watchdog looks after what fails
/// in NCCL without a call that could report it. Collective over the world, which outlives it.
/// @param say  a line for people, on all ranks
/// @throws SharedError(usage) naming what differs on which hosts, or if NCCL is too old; Error(rank_failed)
/// if ranks cannot be reached in time or sums are wrong; Error(usage) in a build without CUDA
std::unique_ptr<CommSession> make_nccl_session(const World& world, Device& device,
                                               const NcclSettings& settings,
                                               const std::function<void(const std::string&)>& say);

/// "compiled 2.28.9, loaded 2.28.9", or that this build has none.
std::string nccl_library_version();

}  // namespace gpt
