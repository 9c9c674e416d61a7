#pragma once

namespace gpt {

/// Name of the vector instructions that this process computes with: part of what bits depend on.
const char* instruction_set();

}  // namespace gpt
