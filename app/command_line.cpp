#include "command_line.hpp"

#include "base/error.hpp"
#include "option_values.hpp"

#include <sstream>

namespace gpt {
namespace {

namespace po = boost::program_options;

constexpr unsigned help_width = 100;

}  // namespace

CommandLine::CommandLine(std::string usage, const char* positional)
    : usage_(std::move(usage)), positional_(positional) {}

po::options_description_easy_init CommandLine::group(const std::string& caption) {
  groups_.emplace_back(caption, help_width);
  return groups_.back().add_options();
}

std::optional<std::string> CommandLine::parse(const Arguments& arguments) {
  group("Help")("help,h", "print this");
  po::options_description all("", help_width);
  for (const auto& options : groups_) all.add(options);
  po::positional_options_description places;
  if (positional_ != nullptr) places.add(positional_, -1);
  check_values_follow(arguments, all);
  po::variables_map values;
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(places).style(style).run(), values);
  } catch (const po::too_many_positional_options_error&) {
    throw Error("a word belongs to no option: each has a name with two dashes; --help lists them",
                ExitCode::usage);
  }
  if (values.contains("help")) {
    std::ostringstream text;
    text << usage_ << '\n' << all;
    return text.str();
  }
  po::notify(values);
  return std::nullopt;
}

po::typed_value<std::vector<std::string>>* list(std::vector<std::string>& target, const char* name) {
  return po::value<std::vector<std::string>>(&target)->multitoken()->value_name(name);
}

po::typed_value<std::string>* required(std::string& target, const char* name) {
  return po::value<std::string>(&target)->required()->value_name(name);
}

}  // namespace gpt
