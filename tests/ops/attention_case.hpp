#pragma once

#include "harness.hpp"

#include <string>

namespace gpt::test {

/// Random operands of attention with the values that attention and its backward have to give.
struct AttentionCase {
  Array qkv;  ///< (sequences, positions, 3·width), rounded to the type
  Array dy;   ///< (sequences, positions, width), rounded to the type
  reference::AttentionResult expected;
  Array expected_dqkv;  ///< (sequences, positions, 3·width)
};
AttentionCase attention_case(const reference::AttentionSizes& s, const Dropout& dropout, DType type);

/// "attention 2 7 3 5 dropout 0.25 bf16"
std::string attention_name(const reference::AttentionSizes& s, const Dropout& dropout, DType type);

/// Whether dqkv is as near to the expected one as gradients of that type have to be.
/// @param in_pairs  bfloat16 was multiplied in pairs
void check_gradients(const reference::AttentionSizes& s, DType type, bool in_pairs, const Array& dqkv,
                     const Array& expected);

}  // namespace gpt::test
