#pragma once

#include <boost/program_options.hpp>
#include <deque>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpt {

using Arguments = std::vector<std::string>;

/// The options of one command of a program and how they are read.
class CommandLine {
public:
  /// @param positional  the option that arguments without a name belong to; null: there are none
  explicit CommandLine(std::string usage, const char* positional = nullptr);

  boost::program_options::options_description_easy_init group(const std::string& caption);

  /// The text of --help if it was asked for; else the options are set.
  /// @throws boost::program_options::error, or Error(usage) where a value is missing or a word is too many
  std::optional<std::string> parse(const Arguments& arguments);

private:
  std::string usage_;
  const char* positional_;
  std::deque<boost::program_options::options_description> groups_;
};

/// An option whose default is what `target` holds.
template <class T>
boost::program_options::typed_value<T>* option(T& target, const char* name) {
  return boost::program_options::value<T>(&target)
      ->default_value(target, fmt::format("{}", target))
      ->value_name(name);
}

/// An option with several values.
boost::program_options::typed_value<std::vector<std::string>>* list(std::vector<std::string>& target,
                                                                    const char* name);

boost::program_options::typed_value<std::string>* required(std::string& target, const char* name);

}  // namespace gpt
