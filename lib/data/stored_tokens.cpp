#include "data/stored_tokens.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <cstring>

namespace gpt {
namespace {

template <class Stored>
void store(std::span<const Token> tokens, std::byte* out) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto stored = static_cast<Stored>(tokens[i]);
    std::memcpy(out + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

template <class Stored>
void load(const std::byte* bytes, std::span<Token> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored = 0;
    std::memcpy(&stored, bytes + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Token>(stored);
  }
}

}  // namespace

void store_tokens(std::span<const Token> tokens, int64_t token_bytes, std::vector<std::byte>& bytes) {
  const size_t start = bytes.size();
  bytes.resize(start + tokens.size() * static_cast<size_t>(token_bytes));
  std::byte* const out = bytes.data() + start;
  if (token_bytes == 1) store<uint8_t>(tokens, out);
  if (token_bytes == 2) store<uint16_t>(tokens, out);
  if (token_bytes == 4) store<uint32_t>(tokens, out);
}

void load_tokens(std::span<const std::byte> bytes, int64_t token_bytes, std::span<Token> out) {
  expects(bytes.size() >= out.size() * static_cast<size_t>(token_bytes));
  if (token_bytes == 1) load<uint8_t>(bytes.data(), out);
  if (token_bytes == 2) load<uint16_t>(bytes.data(), out);
  if (token_bytes == 4) load<uint32_t>(bytes.data(), out);
}

size_t first_outside(std::span<const Token> tokens, int64_t vocabulary) {
  const auto is_outside = [&](Token token) { return int64_t{static_cast<uint32_t>(token)} >= vocabulary; };
  uint32_t largest = 0;  // of a loop without exit, which becomes vector instructions
  for (const Token token : tokens) largest = std::max(largest, static_cast<uint32_t>(token));
  if (int64_t{largest} < vocabulary) return tokens.size();
  return static_cast<size_t>(std::ranges::find_if(tokens, is_outside) - tokens.begin());
}

}  // namespace gpt
