#pragma once

#include <functional>
#include <optional>
#include <string>

namespace gpt {

/// A notice when the batch system granted this host more GPUs than the job has ranks on it
/// (`SLURM_GPUS_ON_NODE`): the rest stands idle. @param variable  a variable of the environment, null if it
/// is not set
std::optional<std::string> idle_gpu_notice(int ranks_on_host,
                                           const std::function<const char*(const char*)>& variable);

}  // namespace gpt
