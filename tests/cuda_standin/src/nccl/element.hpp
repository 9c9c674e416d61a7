#pragma once

#include <cstddef>
#include <nccl.h>

namespace standin {

/// Bytes of an element; 0 for types that the stand-in does not have.
size_t element_bytes(ncclDataType_t type);

/// "float32", "sum": for messages.
const char* type_name(ncclDataType_t type);
const char* reduction_name(ncclRedOp_t reduction);

/// into[i] = reduction over `ranks` of contributions[rank · count + i]. In the order of the ranks, and
/// rounded to the type after each, as partial results that travel are.
void combine(void* into, const void* contributions, size_t count, int ranks, ncclDataType_t type,
             ncclRedOp_t reduction);

}  // namespace standin
