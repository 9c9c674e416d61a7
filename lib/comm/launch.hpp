#pragma once

#include <functional>
#include <optional>
#include <string>

namespace gpt {

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// What is wrong if MPI now sees a world of one: a launcher started several tasks, and each would train alone
/// and overwrite the others' files. Plain starts, steps of one task, and mpirun inside an allocation (which
/// inherits Slurm's variables) are no such case. To be asked before MPI starts, since a lone MPI process sets
/// such variables itself.
std::optional<std::string> lone_task_fault(const Environment& environment);

/// The same where it is certain before MPI starts: a Slurm step of several tasks in which no process manager
/// left a trace. Some MPI libraries end the program in MPI_Init then, with a message of their own.
std::optional<std::string> unmanaged_step_fault(const char* const* environment);

}  // namespace gpt
