#include "comm/comm_backend.hpp"

#include <bit>

namespace gpt::test {

Device& device() {
  static const std::unique_ptr<Device> cpu = make_cpu_device(1);
  return *cpu;
}

bool lies_in_host_memory() { return true; }

std::unique_ptr<CommSession> make_session(const World& world) { return make_mpi_session(world); }

std::vector<NamedPlan> plans_for(int nodes) {
  std::vector<NamedPlan> plans = {
      {"flat", {.reduction = Reduction::flat}},
      {"flat, many calls", {.reduction = Reduction::flat, .chunk = 1000}},
      {"blocks of the usual size", {}},
      {"ring", {.block_bytes = small_blocks}},
      {"messages inside", {.shared_memory = false, .block_bytes = small_blocks}},
      {"library, one block in many calls", {.inter = Inter::library, .chunk = 1000}},
      {"library, many blocks", {.inter = Inter::library, .block_bytes = small_blocks}},
      {"direct", {.inter = Inter::direct, .block_bytes = small_blocks}},
      {"bf16", {.wire_node = DType::bf16, .wire_peers = DType::bf16, .block_bytes = small_blocks}},
      {"bf16 inside, messages",
       {.wire_node = DType::bf16, .shared_memory = false, .block_bytes = small_blocks}},
      {"bf16 between", {.wire_peers = DType::bf16, .block_bytes = small_blocks}},
  };
  if (std::has_single_bit(static_cast<unsigned>(nodes)))
    plans.push_back({"halving", {.inter = Inter::halving, .block_bytes = small_blocks}});
  return plans;
}

}  // namespace gpt::test
