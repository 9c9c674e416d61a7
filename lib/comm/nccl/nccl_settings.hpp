#pragma once

#include "comm/facts.hpp"

#include <string>

namespace gpt {

/// What must be the same on all ranks before NCCL connects them: its version as loaded, that of CUDA's
/// runtime, and the settings in the environment, but for those that name what a host has or where logs go.
Facts nccl_facts();

/// "2.28.9": as loaded.
std::string loaded_nccl_version();

/// After all ranks were found to have the same. @throws SharedError(usage) if NCCL as loaded lacks what this
/// program calls: communicators that are parted without blocking came with 2.18
void require_nccl_version();

/// Whether two communicators may be at work at a time: NCCL starts their kernels in the order in which the
/// host gives them (from 2.26 on, with NCCL_LAUNCH_ORDER_IMPLICIT). Else operations of all communicators have
/// to be in the order of one stream.
bool nccl_keeps_launch_order();

/// Settings that this program depends on, where the user has given none. Before NCCL is called.
void set_nccl_defaults();

}  // namespace gpt
