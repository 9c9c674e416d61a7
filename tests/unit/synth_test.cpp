#include "data/synth.hpp"

#include "data/grammar.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <map>

using namespace gpt;
using gpt::test::error_of;
using gpt::test::says;

namespace {

const Rules small_rules{{"start", {{3, "<who> saw <who>."}, {1, "No<more>"}}},
                        {"who", {{1, "Ann"}, {2, "Bob"}, {1, "the <who2>"}}},
                        {"who2", {{1, "cat"}, {4, "dog"}}},
                        {"more", {{1, "body."}, {1, "thing came."}}}};

/// Every text of a rule with the probabilities of its derivations, by expanding the notation itself.
std::vector<std::pair<std::string, double>> all_texts(const Rules& rules, const std::string& text) {
  const size_t open = text.find('<');
  if (open == std::string::npos) return {{text, 1.0}};
  const size_t close = text.find('>', open);
  const auto& choices = rules.at(text.substr(open + 1, close - open - 1));
  double total = 0;
  for (const Choice& choice : choices) total += choice.weight;
  std::vector<std::pair<std::string, double>> out;
  for (const Choice& choice : choices) {
    for (auto [rest, probability] : all_texts(rules, choice.text + text.substr(close + 1))) {
      out.emplace_back(text.substr(0, open) + rest, probability * choice.weight / total);
    }
  }
  return out;
}

Error building(const Rules& rules) {
  return error_of([&] { Grammar(rules, "start"); });
}

}  // namespace

TEST_CASE("entropy and length of a small grammar are those of its enumerated texts") {
  const auto texts = all_texts(small_rules, "<start>");
  REQUIRE(texts.size() == 4 * 4 + 2);
  std::map<std::string, double> probabilities;
  for (const auto& [text, probability] : texts) probabilities[text] += probability;
  REQUIRE(probabilities.size() == texts.size());  // one derivation each
  double entropy = 0;
  double length = 0;
  for (const auto& [text, probability] : probabilities) {
    entropy -= probability * std::log(probability);
    length += probability * static_cast<double>(text.size());
  }
  const Grammar grammar(small_rules, "start");
  CHECK(grammar.entropy() == doctest::Approx(entropy).epsilon(1e-12));
  CHECK(grammar.length() == doctest::Approx(length).epsilon(1e-12));

  std::map<std::string, int> times;
  constexpr int samples = 40'000;
  for (int i = 0; i < samples; ++i) {
    std::string text;
    const double information = grammar.sample(5, static_cast<uint64_t>(i), text);
    REQUIRE(probabilities.contains(text));
    CHECK(information == doctest::Approx(-std::log(probabilities[text])).epsilon(1e-12));
    ++times[text];
  }
  for (const auto& [text, probability] : probabilities) {
    CAPTURE(text);
    const double deviation = std::sqrt(samples * probability * (1 - probability));
    CHECK(std::abs(times[text] - samples * probability) < 5 * deviation);
  }
}

TEST_CASE("grammars in which a text could have two derivations are refused") {
  CHECK(building(small_rules).code() == ExitCode::finished);
  CHECK(says(building({{"start", {{1, "Bob"}, {1, "Bobby"}}}}), "ambiguous"));
  CHECK(says(building({{"start", {{1, "a<b>"}, {1, "<c>"}}}, {"b", {{1, "x"}}}, {"c", {{1, "ab"}}}}),
             "ambiguous"));
  CHECK(says(building({{"start", {{1, "x"}, {1, "x"}}}}), "ambiguous"));
  CHECK(says(building({{"start", {{1, "x<start>"}}}}), "contains itself"));
  CHECK(says(building({{"start", {{1, "x<none>"}}}}), "no rule <none>"));
  CHECK(says(building({{"start", {{1, ""}}}}), "empty choice"));
  CHECK(says(building({{"start", {{0, "x"}}}}), "weight"));
  CHECK(says(building({{"start", {{1, "x<y"}}}}), "without '>'"));
}

TEST_CASE("the stories' entropy per token is what their sampled information says") {
  const Grammar grammar = make_story_grammar();
  double information = 0;
  double squares = 0;
  double length = 0;
  constexpr int samples = 20'000;
  const double rate = grammar.entropy() / grammar.length();
  for (int i = 0; i < samples; ++i) {
    std::string text;
    const double nats = grammar.sample(11, static_cast<uint64_t>(i), text);
    REQUIRE(text.find('\n') == text.size() - 1);  // a story is a line: the end of one is certain
    information += nats;
    length += static_cast<double>(text.size());
    const double residual = nats - rate * static_cast<double>(text.size());
    squares += residual * residual;
  }
  const double standard_error = std::sqrt(squares) / length;
  CAPTURE(rate);
  CHECK(standard_error < 0.005 * rate);
  CHECK(std::abs(information / length - rate) < 4 * standard_error);
  CHECK(length / samples == doctest::Approx(grammar.length()).epsilon(0.01));
}

TEST_CASE("a synthetic dataset has the counts that were asked for and stores its entropy") {
  const test::ScratchFolder folder;
  SynthOptions options;
  options.out = folder / "out";
  options.tokens = 30'001;
  options.shards = 3;
  const Manifest manifest = synth(options);
  const std::string train = test::text_of(options.out, Split::train);
  const std::string val = test::text_of(options.out, Split::val);
  CHECK(train.size() == 30'001);
  CHECK(val.size() == 3'000);
  const Grammar grammar = make_story_grammar();
  CHECK(Manifest::read(options.out).entropy == grammar.entropy() / grammar.length());
  CHECK(Manifest::read(options.out).vocabulary == static_cast<int64_t>(grammar.alphabet().size()));
  const std::string start = val.substr(0, 3);
  CHECK((start == "One" || start == "It " || std::isupper(static_cast<unsigned char>(start[0]))));
  CHECK(train.find(val.substr(0, val.find('\n'))) == std::string::npos);

  options.out = folder / "again";
  CHECK(synth(options).fingerprint() == manifest.fingerprint());
  options.out = folder / "other";
  options.seed = 1;
  CHECK(synth(options).fingerprint() != manifest.fingerprint());
  options.out = folder / "bytes";
  options.tokenizer = "bytes";
  options.seed = 0;
  options.val_tokens = 0;
  CHECK(synth(options).val.empty());
  CHECK(test::text_of(options.out, Split::train) == train);
}

TEST_CASE("synthetic datasets of impossible sizes are refused") {
  const test::ScratchFolder folder;
  const auto refused = [&](const auto& change) {
    SynthOptions options;
    options.out = folder / "out";
    change(options);
    return error_of([&] { synth(options); }).code() == ExitCode::usage;
  };
  CHECK(refused([](SynthOptions& o) { o.tokens = 0; }));
  CHECK(refused([](SynthOptions& o) { o.tokens = -5; }));
  CHECK(refused([](SynthOptions& o) { o.tokens = 63; }));
  CHECK(refused([](SynthOptions& o) { o.tokens = int64_t{1} << 60; }));
  CHECK(refused([](SynthOptions& o) { o.val_tokens = 1; }));
  CHECK(refused([](SynthOptions& o) { o.shards = 0; }));
  CHECK(refused([](SynthOptions& o) { o.tokenizer = "ids"; }));
  CHECK(!std::filesystem::exists(folder / "out"));
}
