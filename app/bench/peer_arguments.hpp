#pragma once

#include "bench/peer_process.hpp"
#include "device/dtype.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Of the peers that train (tests/peers/torch_step.py, jax_step.py), whose rounds are `steps` steps.
/// @param type  bf16: as the peer's mixed precision computes
std::vector<std::string> training_arguments(const GptConfig& config, DType type, int64_t batch, int64_t steps,
                                            int threads, bool compiled);

/// `--name value` as two words more.
void add_number(std::vector<std::string>& arguments, const char* name, int64_t value);
void add_model(std::vector<std::string>& arguments, const GptConfig& config);

}  // namespace gpt
