#pragma once

#include "comm/facts.hpp"

#include <string>

namespace gpt {

/// What must be the same on all ranks before NCCL connects them: its version as loaded, that of CUDA's
/// runtime, and the settings in the environment, but for those that name what a host has or where logs go.
Facts nccl_facts();

/// "2.28.9": as loaded.
std::string loaded_nccl_version();

/// Settings that this program depends on, where the user has given none. Before NCCL is called.
void set_nccl_defaults();

}  // namespace gpt
