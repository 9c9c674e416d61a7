#include "data/grammar.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace gpt {
namespace {

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

}  // namespace

/// Turns named rules into numbered ones, each after those that it uses, and checks them.
struct Grammar::Compiler {
  const Rules& rules;
  Grammar& grammar;
  std::map<std::string, int64_t> numbers;
  std::set<std::string> open;                     // on the way from the start: meeting one again is recursion
  std::vector<std::set<std::string>> beginnings;  // by rule: first literals

  int64_t compile(const std::string& name) {
    if (const auto known = numbers.find(name); known != numbers.end()) return known->second;
    const auto found = rules.find(name);
    validate(found != rules.end() && !found->second.empty(), "the grammar has no rule <{}>", name);
    validate(open.insert(name).second, "the grammar's rule <{}> contains itself", name);

    double total = 0;
    for (const Choice& choice : found->second) {
      validate(choice.weight > 0 && std::isfinite(choice.weight), "the grammar's rule <{}>: a weight of {}",
               name, choice.weight);
      total += choice.weight;
    }
    std::vector<Expansion> expansions;
    std::set<std::string> all;
    for (const Choice& choice : found->second) {
      expansions.push_back({choice.weight / total, split(name, choice.text)});
      const std::set<std::string> first = beginnings_of(expansions.back());
      for (const std::string& text : first) check_distinct(name, text, all);
      all.insert(first.begin(), first.end());
    }
    open.erase(name);

    Moments moments;
    for (const Expansion& expansion : expansions) {
      moments.entropy -= expansion.probability * std::log(expansion.probability);
      for (const Symbol& symbol : expansion.symbols) {
        const Moments part = symbol.rule >= 0
                                 ? grammar.moments_[static_cast<size_t>(symbol.rule)]
                                 : Moments{0, static_cast<double>(count_characters(symbol.literal))};
        moments.entropy += expansion.probability * part.entropy;
        moments.length += expansion.probability * part.length;
      }
    }
    grammar.rules_.push_back(std::move(expansions));
    grammar.moments_.push_back(moments);
    beginnings.push_back(std::move(all));
    return numbers[name] = static_cast<int64_t>(grammar.rules_.size()) - 1;
  }

  std::vector<Symbol> split(const std::string& name, std::string_view text) {
    validate(!text.empty(), "the grammar's rule <{}> has an empty choice", name);
    std::vector<Symbol> symbols;
    while (!text.empty()) {
      const size_t open_at = text.find('<');
      if (open_at == 0) {
        const size_t close = text.find('>');
        validate(close != std::string_view::npos, "the grammar's rule <{}>: a '<' without '>'", name);
        symbols.push_back({{}, compile(std::string(text.substr(1, close - 1)))});
        text.remove_prefix(close + 1);
      } else {
        symbols.push_back({std::string(text.substr(0, open_at)), -1});
        text.remove_prefix(std::min(open_at, text.size()));
      }
    }
    return symbols;
  }

  std::set<std::string> beginnings_of(const Expansion& expansion) const {
    const Symbol& first = expansion.symbols.front();
    if (first.rule < 0) return {first.literal};
    return beginnings[static_cast<size_t>(first.rule)];
  }

  static void check_distinct(const std::string& name, const std::string& text,
                             const std::set<std::string>& others) {
    for (const std::string& other : others) {
      validate(!text.starts_with(other) && !other.starts_with(text),
               "the grammar's rule <{}> is ambiguous: one choice can begin with '{}', another with '{}'",
               name, other, text);
    }
  }
};

Grammar::Grammar(const Rules& rules, const std::string& start) {
  Compiler compiler{.rules = rules, .grammar = *this, .numbers = {}, .open = {}, .beginnings = {}};
  compiler.compile(start);
}

std::vector<char32_t> Grammar::alphabet() const {
  std::set<char32_t> codes;
  for (const auto& rule : rules_) {
    for (const Expansion& expansion : rule) {
      for (const Symbol& symbol : expansion.symbols) {
        for (std::string_view rest = symbol.literal; !rest.empty();) {
          const Utf8Char next = first_utf8(rest);
          validate(next.length > 0, "the grammar's text '{}' is not UTF-8", symbol.literal);
          codes.insert(next.code);
          rest.remove_prefix(static_cast<size_t>(next.length));
        }
      }
    }
  }
  return {codes.begin(), codes.end()};
}

double Grammar::sample(uint64_t key, uint64_t index, std::string& out) const {
  uint64_t draws = 0;
  double information = 0;
  expand(static_cast<int64_t>(rules_.size()) - 1, key, index, draws, information, out);
  return information;
}

void Grammar::expand(int64_t rule, uint64_t key, uint64_t index, uint64_t& draws, double& information,
                     std::string& out) const {
  const std::vector<Expansion>& expansions = rules_[static_cast<size_t>(rule)];
  double left = to_unit(random_bits(key, index, draws++));
  size_t chosen = 0;
  while (chosen + 1 < expansions.size() && left >= expansions[chosen].probability) {
    left -= expansions[chosen++].probability;
  }
  information -= std::log(expansions[chosen].probability);
  for (const Symbol& symbol : expansions[chosen].symbols) {
    if (symbol.rule < 0) {
      out += symbol.literal;
    } else {
      expand(symbol.rule, key, index, draws, information, out);
    }
  }
}

}  // namespace gpt
