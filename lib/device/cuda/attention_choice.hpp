#pragma once

#include "device/dtype.hpp"
#include "device/tensor.hpp"

#include <cstdint>
#include <initializer_list>
#include <string_view>

/// Which calls of attention are put to a library's fused kernels at all (FusedAttention).
namespace gpt {

/// cuDNN's kernels load 16 bytes at a time, and versions of it give wrong results where an address or the
/// distance of two rows is no multiple of that, instead of refusing.
constexpr int64_t fused_alignment = 16;

struct AttentionCall {
  DType type = DType::bf16;  ///< of activations
  float dropout = 0.0F;      ///< rate
  int64_t head_size = 0;
  uintptr_t addresses = 0;  ///< bits that are set in the address of any tensor
};

inline uintptr_t addresses_of(std::initializer_list<Tensor> tensors) {
  uintptr_t bits = 0;
  for (const Tensor& tensor : tensors) bits |= reinterpret_cast<uintptr_t>(tensor.raw());
  return bits;
}

/// Why a call is computed by our own kernels, whatever the library can do: a reason for people; empty if the
/// library is to be asked.
constexpr std::string_view why_own(const AttentionCall& call) {
  if (call.type != DType::bf16) return "activations are not bf16";
  if (call.dropout > 0.0F) return "dropout follows this program's own random numbers";
  if (call.head_size * size_of(call.type) % fused_alignment != 0)
    return "the size of a head is no multiple of 8";
  if (call.addresses % fused_alignment != 0) return "addresses are no multiples of 16";
  return {};
}

}  // namespace gpt
