#pragma once

#include "text/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

/// Appends `tokens` to `bytes` as little-endian numbers of `token_bytes` bytes (1, 2 or 4).
void store_tokens(std::span<const Token> tokens, int64_t token_bytes, std::vector<std::byte>& bytes);

/// Fills `out` from the first numbers in `bytes`; those above 2^31 become negative tokens.
void load_tokens(std::span<const std::byte> bytes, int64_t token_bytes, std::span<Token> out);

/// Index of the first token that is not one of a vocabulary of this size; tokens.size() if all are.
size_t first_outside(std::span<const Token> tokens, int64_t vocabulary);

}  // namespace gpt
