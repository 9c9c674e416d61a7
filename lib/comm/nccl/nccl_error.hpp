#pragma once

#include "device/tensor.hpp"

#include <nccl.h>
#include <string>

namespace gpt {

/// NCCL's own text for an error, the last one of `comm` (null: of the process), and what to look at: free
/// shared memory of this host where that may be why.
std::string describe_nccl_error(ncclResult_t error, ncclComm_t comm);

/// @throws Error(rank_failed) with that text, unless NCCL has done or taken the call
void check_nccl(ncclResult_t result, ncclComm_t comm = nullptr);

/// Why ranks may not find each other: the network settings as they are, this host's interfaces, what to try.
std::string network_advice();

ncclDataType_t nccl_type(DType dtype);

/// "2.28.9" of NCCL's number for it.
std::string nccl_version_text(int code);

}  // namespace gpt
