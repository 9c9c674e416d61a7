#include "base/error.hpp"
#include "text/tokenizer.hpp"

#include <nlohmann/json.hpp>

namespace gpt {
namespace {

constexpr int64_t largest_vocabulary = int64_t{1} << 22;  // every text is kept: 45 MB at this size

class IdTokenizer final : public Tokenizer {
public:
  explicit IdTokenizer(int64_t vocabulary) {
    starts_.reserve(static_cast<size_t>(vocabulary) + 1);
    for (int64_t id = 0; id < vocabulary; ++id) {
      starts_.push_back(static_cast<uint32_t>(texts_.size()));
      texts_ += fmt::format("<{}>", id);
    }
    starts_.push_back(static_cast<uint32_t>(texts_.size()));
  }

  using Tokenizer::decode;

  std::string kind() const override { return "ids"; }
  int64_t vocabulary() const override { return static_cast<int64_t>(starts_.size()) - 1; }

  void encode(std::string_view, std::vector<Token>&) const override {
    throw Error(
        "text cannot be turned into tokens here: the dataset was imported as bare token ids, without a "
        "tokenizer; "
        "pack the text itself with gpt_data pack, or import with --meta or --alphabet",
        ExitCode::usage);
  }

  std::string_view decode(Token token) const override {
    validate(token >= 0 && token < vocabulary(), ExitCode::damaged,
             "token {} is outside the vocabulary of {}", token, vocabulary());
    const auto id = static_cast<size_t>(token);
    return std::string_view(texts_).substr(starts_[id], starts_[id + 1] - starts_[id]);
  }

  std::string serialize() const override {
    return nlohmann::json{{"kind", "ids"}, {"vocabulary", vocabulary()}}.dump();
  }

private:
  std::string texts_;
  std::vector<uint32_t> starts_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_id_tokenizer(int64_t vocabulary) {
  validate(vocabulary >= 1 && vocabulary <= largest_vocabulary, "a vocabulary of {} tokens: use 1 to {}",
           vocabulary, largest_vocabulary);
  return std::make_unique<IdTokenizer>(vocabulary);
}

}  // namespace gpt
