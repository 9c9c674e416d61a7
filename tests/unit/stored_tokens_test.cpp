#include "data/stored_tokens.hpp"

#include <algorithm>
#include <doctest/doctest.h>

namespace gpt {
namespace {

TEST_CASE("tokens of every width come back, and lie in little-endian order") {
  for (const int64_t width : {1, 2, 4}) {
    std::vector<Token> tokens;
    const auto largest = static_cast<Token>((int64_t{1} << (8 * width - 1)) - 1);
    for (Token i = 0; i < 300; ++i) tokens.push_back((i * 1'234'567) & largest);
    std::vector<std::byte> bytes{std::byte{9}};  // store_tokens appends
    store_tokens(tokens, width, bytes);
    REQUIRE(bytes.size() == 1 + tokens.size() * static_cast<size_t>(width));
    CHECK(bytes[0] == std::byte{9});
    for (int64_t i = 0; i < width; ++i)
      CHECK(bytes[static_cast<size_t>(1 + 7 * width + i)] == static_cast<std::byte>(tokens[7] >> (8 * i)));
    std::vector<Token> read(tokens.size());
    load_tokens(std::span(bytes).subspan(1), width, read);
    CHECK(read == tokens);
  }
}

TEST_CASE("the first token outside the vocabulary is found, wherever it stands") {
  std::vector<Token> tokens(100, 49);
  CHECK(first_outside(tokens, 50) == tokens.size());
  CHECK(first_outside(tokens, 49) == 0);
  CHECK(first_outside({}, 50) == 0);
  CHECK(first_outside(tokens, int64_t{1} << 31) == tokens.size());
  for (const Token bad : {-1, 50, 1 << 30})
    for (size_t at = 0; at < tokens.size(); ++at) {
      tokens[at] = bad;
      CHECK(first_outside(tokens, 50) == at);
      const std::span<const Token> before = std::span(tokens).first(at);
      CHECK(first_outside(before, 50) == at);
      tokens[at] = 49;
    }
}

}  // namespace
}  // namespace gpt
