#include "comm/launch.hpp"

#include <doctest/doctest.h>
#include <map>
#include <string>

namespace gpt {
namespace {

using Variables = std::map<std::string, std::string>;

std::string fault(const Variables& variables) {
  const auto look_up = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return lone_task_fault(look_up).value_or("");
}

}  // namespace

TEST_CASE("tasks of one step that MPI sees alone are refused, naming the option to add") {
  const Variables step = {{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}};
  CHECK(fault(step).find("--mpi=pmix") != std::string::npos);

  // srun --mpi=pmi2 with an MPI library that does not speak it
  const Variables other_protocol = {{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}};
  CHECK(fault(other_protocol).find("--mpi=pmix") != std::string::npos);
}

TEST_CASE("plain starts, one-task steps and mpirun inside an allocation are let through") {
  CHECK(fault({}).empty());
  CHECK(fault({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}}).empty());
  CHECK(fault({{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}}).empty());
  CHECK(fault({{"SLURM_STEP_NUM_TASKS", "4"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}).empty());
  CHECK(fault({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "0"}}).empty());
}

TEST_CASE("an mpirun of another MPI library is noticed") {
  CHECK(fault({{"OMPI_COMM_WORLD_SIZE", "4"}}).find("OMPI_COMM_WORLD_SIZE") != std::string::npos);
  CHECK(fault({{"PMI_SIZE", "2"}}).find("mpirun") != std::string::npos);
}

TEST_CASE("before MPI starts only a step without any process manager is refused") {
  const char* const bare[] = {"PATH=/bin", "SLURM_STEP_NUM_TASKS=4", nullptr};
  const char* const managed[] = {"SLURM_STEP_NUM_TASKS=4", "PMIX_RANK=2", nullptr};
  const char* const one_task[] = {"SLURM_STEP_NUM_TASKS=1", nullptr};
  const char* const plain[] = {"SLURM_NTASKS=4", nullptr};
  CHECK(unmanaged_step_fault(bare).value_or("").find("--mpi=pmix") != std::string::npos);
  CHECK(!unmanaged_step_fault(managed));
  CHECK(!unmanaged_step_fault(one_task));
  CHECK(!unmanaged_step_fault(plain));
}

}  // namespace gpt
