#include "data/grammar.hpp"

#include <array>

namespace gpt {
namespace {

struct Hero {
  const char* name;
  const char* subject;  // at the start of a sentence
  const char* pronoun;
  const char* possessive;
};

constexpr std::array heroes{
    Hero{"Anna", "She", "she", "her"},  Hero{"Clara", "She", "she", "her"}, Hero{"Elsa", "She", "she", "her"},
    Hero{"Greta", "She", "she", "her"}, Hero{"Hilda", "She", "she", "her"}, Hero{"Ida", "She", "she", "her"},
    Hero{"Arthur", "He", "he", "his"},  Hero{"Bruno", "He", "he", "his"},   Hero{"David", "He", "he", "his"},
    Hero{"Felix", "He", "he", "his"},   Hero{"Karl", "He", "he", "his"},    Hero{"Oskar", "He", "he", "his"},
};

constexpr std::array finds{"kite", "lamp",  "drum",    "boat",  "key",
                           "map",  "shell", "feather", "clock", "whistle"};

std::vector<Choice> words(std::initializer_list<const char*> texts) {
  std::vector<Choice> choices;
  double weight = 1;
  for (const char* text : texts) {  // like real words, some are more common than others
    choices.push_back({1 / weight, text});
    weight += 0.5;
  }
  return choices;
}

std::string replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string fill(std::string text, const Hero& hero) {
  text = replace(text, "$N", hero.name);
  text = replace(text, "$S", hero.subject);
  text = replace(text, "$s", hero.pronoun);
  return replace(text, "$p", hero.possessive);
}

/// Rules in which $N is the hero's name, $S and $s the pronoun, $p the possessive. Rules whose names end in
/// $N or $O exist for every hero or find: what was told first decides how it goes on, so later sentences
/// agree with it.
Rules hero_rules(const Hero& hero) {
  Rules rules{
      {"search-$N",
       {{3, "$S found a <quality> <found-$N>"},
        {2, "There was a <quality> <seen-$N>"},
        {1, "$N had lost $p <quality> <lost-$N>"}}},
  };
  double weight = 1;
  for (const char* find : finds) {
    const Rules told{
        {"found-$N", {{weight, "$O <where>. <meeting-$N-$O>"}}},
        {"seen-$N", {{weight, "$O <where>, and $s picked it up. <meeting-$N-$O>"}}},
        {"lost-$N", {{weight, "$O. <looking-$N-$O><meeting-$N-$O>"}}},
        {"looking-$N-$O",
         {{2, "$S looked <where>, and there was the $O. "}, {1, "A <animal> showed $N where the $O was. "}}},
        {"meeting-$N-$O",
         {{3, "Then a <animal> came by and asked, \"Is that your $O?\" <answer-$N-$O><ending-$N-$O>"},
          {2, "$S showed the $O to a <opinion-$O><ending-$N-$O>"},
          {1, "Nobody else was there, but $N was <feeling>. <ending-$N-$O>"}}},
        {"answer-$N-$O",
         {{2, "\"Yes,\" said $N, \"the $O is mine.\" "},
          {1, "\"No,\" said $N, \"but we can share it.\" "},
          {1, "$N was too <feeling> to answer. "}}},
        {"ending-$N-$O",
         {{3, "In the end $N took the $O home, and $s was <feeling>.\n"},
          {2, "At last $s put the $O <where> and went to sleep.\n"},
          {1, "When the <time> was over, $N gave the $O to the <animal>.\n"}}},
    };
    for (const auto& [name, choices] : told) {
      auto& target = rules[replace(name, "$O", find)];
      for (const Choice& choice : choices)
        target.push_back({choice.weight, replace(choice.text, "$O", find)});
    }
    weight *= 0.85;
  }
  Rules filled;
  for (const auto& [name, choices] : rules) {
    auto& target = filled[fill(name, hero)];
    for (const Choice& choice : choices) target.push_back({choice.weight, fill(choice.text, hero)});
  }
  return filled;
}

/// An animal that sees the find and says what it thinks of it: "fox. The fox liked the kite very much. "
void add_opinions(Rules& rules) {
  for (const char* find : finds) {
    for (const Choice& animal : rules.at("animal")) {
      std::string text = animal.text + ". <thought-" + animal.text + "-" + find + ">";
      rules[std::string("opinion-") + find].push_back({animal.weight, text});
      rules["thought-" + animal.text + "-" + find] = {
          {2, "The " + animal.text + " liked the " + find + " very much. "},
          {1, std::string("\"I have seen a better ") + find + ",\" said the " + animal.text + ". "}};
    }
  }
}

}  // namespace

Grammar make_story_grammar() {
  Rules rules{
      {"story",
       {{3, "One <time>, <traveller>"}, {2, "<neighbour>"}, {1, "It was a <weather> <time>, and <visitor>"}}},
      {"time", words({"morning", "evening", "night", "afternoon"})},
      {"place",
       words({"river", "forest", "market", "harbor", "mill", "castle", "lake", "bridge", "garden", "hill"})},
      {"weather", words({"sunny", "windy", "cold", "rainy", "foggy"})},
      {"quality",
       words({"small", "red", "shiny", "broken", "golden", "very old", "blue", "wooden", "heavy"})},
      {"where", words({"under a tree", "behind the door", "in the grass", "on the roof", "between two stones",
                       "next to the well"})},
      {"animal", words({"fox", "crow", "bear", "mouse", "goat", "duck", "hedgehog"})},
      {"feeling", words({"happy", "tired", "proud", "surprised", "hungry", "brave"})},
  };
  double weight = 1;
  for (const Hero& hero : heroes) {
    rules["traveller"].push_back({weight, fill("$N went to the <place>. <search-$N>", hero)});
    rules["neighbour"].push_back({weight, fill("$N lived near the <place>. <search-$N>", hero)});
    rules["visitor"].push_back({weight, fill("$N was at the <place>. <search-$N>", hero)});
    rules.merge(hero_rules(hero));
    weight *= 0.9;
  }
  add_opinions(rules);
  return Grammar(rules, "story");
}

}  // namespace gpt
