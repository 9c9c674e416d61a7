#pragma once

#include <string_view>
#include <vector>

namespace gpt {

/// What backward computes again instead of keeping it from forward. The bits are the same. Beside the input
/// of each block are kept:
///
/// none: everything that backward reads.
/// attention: queries, keys and values, the residual stream before the MLP, what goes into its activation.
/// Attention, norms and activation are computed again: no products with weights.
/// block: nothing. A block's forward is computed again, up to its last product.
enum class Recompute { none, attention, block };

/// @throws Error(usage) naming --recompute and what is allowed
Recompute recompute_named(std::string_view name);

/// "none", "attention", "block"
std::vector<std::string_view> recompute_names();

}  // namespace gpt
