#include "base/error.hpp"
#include "text/tokenizer.hpp"

#include <array>

namespace gpt {
namespace {

constexpr int64_t byte_values = 256;

constexpr std::array<char, byte_values> make_bytes() {
  std::array<char, byte_values> bytes{};
  for (size_t value = 0; value < bytes.size(); ++value) {
    bytes[value] = static_cast<char>(static_cast<unsigned char>(value));
  }
  return bytes;
}
constexpr std::array<char, byte_values> all_bytes = make_bytes();

class ByteTokenizer final : public Tokenizer {
public:
  using Tokenizer::decode;

  std::string kind() const override { return "bytes"; }
  int64_t vocabulary() const override { return byte_values; }

  void encode(std::string_view text, std::vector<Token>& out) const override {
    const auto* first = reinterpret_cast<const unsigned char*>(text.data());
    out.insert(out.end(), first, first + text.size());
  }

  std::string_view decode(Token token) const override {
    validate(token >= 0 && token < byte_values, ExitCode::damaged, "token {} is not a byte (0 to 255)",
             token);
    return {&all_bytes[static_cast<size_t>(token)], 1};
  }

  std::string serialize() const override { return R"({"kind":"bytes"})"; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace gpt
