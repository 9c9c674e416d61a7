#include "bench/peer_work.hpp"

#include "base/error.hpp"
#include "bench/own_step.hpp"
#include "model/precision.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gpt {
namespace {

constexpr int64_t gpt2_vocabulary = 50257;
constexpr int64_t shakespeare_vocabulary = 65;
constexpr int64_t most_sequences = 65536;

/// The number that all of `text` is; 0 if it is none.
int64_t number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

}  // namespace

std::string PeerWork::name() const {
  return fmt::format("{} {}x{} {}", model, batch, config.context, name_of_precision(type));
}

PeerWork parse_work(const std::string& text, const std::string& precision) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view sizes = std::string_view(text).substr(std::min(colon + 1, text.size()));
  const size_t cross = std::min(sizes.find('x'), sizes.size());
  const int64_t batch = number(sizes.substr(0, cross));
  const int64_t context = number(sizes.substr(std::min(cross + 1, sizes.size())));
  validate(batch >= 1 && batch <= most_sequences && context >= 1,
           "--works {}: use PRESET:SEQUENCESxTOKENS, for example gpt2:4x256", text);
  const std::string model = text.substr(0, colon);
  const int64_t vocabulary = model.starts_with("gpt2") ? gpt2_vocabulary : shakespeare_vocabulary;
  return {.model = model,
          .batch = batch,
          .config = bench_config(model, context, vocabulary, "works"),
          .type = precision_named(precision)};
}

}  // namespace gpt
