#include "comm/comm_backend.hpp"
#include "comm/nccl_session.hpp"
#include "comm/world.hpp"
#include "device/cuda_device.hpp"

#include <mpi.h>
#include <string>

namespace gpt::test {
namespace {

/// A GPU for each rank of a host; the stand-in has as many as are asked for.
int own_gpu() {
  int argc = 0;
  char** argv = nullptr;
  return World(argc, argv).local_rank() % static_cast<int>(visible_cuda_devices().size());
}

}  // namespace

Device& device() {
  static const std::unique_ptr<Device> gpu = make_cuda_device(own_gpu());
  return *gpu;
}

bool lies_in_host_memory() { return false; }

std::unique_ptr<CommSession> make_session(const World& world) {
  return make_nccl_session(world, device(), {.test_bytes = 4096}, [](const std::string&) {});
}

std::vector<NamedPlan> plans_for(int /*nodes*/) {
  return {
      {"flat", {.reduction = Reduction::flat}},
      {"blocks of the usual size", {}},
      {"small blocks", {.block_bytes = small_blocks}},
      {"bf16", {.wire_node = DType::bf16, .wire_peers = DType::bf16, .block_bytes = small_blocks}},
      {"bf16 inside", {.wire_node = DType::bf16, .block_bytes = small_blocks}},
      {"bf16 between", {.wire_peers = DType::bf16}},
  };
}

}  // namespace gpt::test
