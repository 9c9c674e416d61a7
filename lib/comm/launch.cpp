#include "comm/launch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <string_view>

namespace gpt {
namespace {

int64_t to_count(const char* text) {
  int64_t count = 0;
  if (text == nullptr) return 0;
  const std::string_view digits(text);
  std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return count;
}

std::string slurm_message(int64_t tasks) {
  return fmt::format(
      "srun started {} tasks, but MPI does not see them as one job: each would train alone. Start with 'srun "
      "--mpi=pmix' (srun --mpi=list shows what this cluster has), or with mpirun inside the allocation",
      tasks);
}

}  // namespace

std::optional<std::string> lone_task_fault(const Environment& environment) {
  // mpirun sets these itself, so they hold for this very start, whatever else was inherited.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* value = environment(name);
    if (value == nullptr) continue;
    const int64_t promised = to_count(value);
    const int64_t tasks = to_count(environment("SLURM_STEP_NUM_TASKS"));
    if (promised <= 1) return {};
    if (promised == tasks) return slurm_message(tasks);
    return fmt::format(
        "the launcher started {} processes ({}), but MPI does not see them as one job: use the mpirun of the "
        "MPI "
        "library that this program was built with",
        promised, name);
  }
  if (environment("PMIX_RANK") != nullptr || environment("PMI_RANK") != nullptr) return {};
  const int64_t tasks = to_count(environment("SLURM_STEP_NUM_TASKS"));
  if (tasks > 1) return slurm_message(tasks);
  return {};
}

std::optional<std::string> unmanaged_step_fault(const char* const* environment) {
  constexpr std::array<std::string_view, 4> traces = {"PMI", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "ALPS_"};
  constexpr std::string_view tasks_name = "SLURM_STEP_NUM_TASKS=";
  int64_t tasks = 0;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (std::ranges::any_of(traces, [&](std::string_view trace) { return entry.starts_with(trace); }))
      return {};
    if (entry.starts_with(tasks_name)) tasks = to_count(*environment + tasks_name.size());
  }
  if (tasks > 1) return slurm_message(tasks);
  return {};
}

}  // namespace gpt
