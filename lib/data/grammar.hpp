#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpt {

/// One way to expand a rule: text in which "<name>" stands for the expansion of another rule.
struct Choice {
  double weight = 1;
  std::string text;
};
using Rules = std::map<std::string, std::vector<Choice>>;

/// A probabilistic context-free grammar without recursion in which every text has one derivation, so that the
/// information in a text is that of the choices that made it, and the entropy is a finite sum.
class Grammar {
public:
  /// Expands "<start>". @throws Error(usage) if a rule is missing, empty or recursive, a weight is not
  /// positive, or one derivation per text is not certain: of two choices of a rule, no text that one can
  /// begin with may be the beginning of one that the other can begin with, so that reading from the left
  /// decides each choice. ("Text to begin with" is the first stretch of literal text.)
  Grammar(const Rules& rules, const std::string& start);

  /// Expected information of a text, in nats: H(rule) = sum over choices of p·(−ln p + H of the rules
  /// inside).
  double entropy() const { return moments_.back().entropy; }

  /// Expected length of a text in characters.
  double length() const { return moments_.back().length; }

  /// All characters that texts can contain.
  std::vector<char32_t> alphabet() const;

  /// Appends text number `index` of the stream `key` to `out`; returns its information −ln p in nats.
  double sample(uint64_t key, uint64_t index, std::string& out) const;

private:
  struct Symbol {
    std::string literal;
    int64_t rule = -1;  // when not a literal
  };
  struct Expansion {
    double probability = 0;
    std::vector<Symbol> symbols;
  };
  struct Moments {
    double entropy = 0;
    double length = 0;
  };
  struct Compiler;

  void expand(int64_t rule, uint64_t key, uint64_t index, uint64_t& draws, double& information,
              std::string& out) const;

  std::vector<std::vector<Expansion>> rules_;  // a rule comes after those that it uses; the start is last
  std::vector<Moments> moments_;               // by rule
};

/// The stories of `gpt_data synth`: a hero, a find, a friend, told with agreement of names and pronouns over
/// several sentences.
Grammar make_story_grammar();

}  // namespace gpt
