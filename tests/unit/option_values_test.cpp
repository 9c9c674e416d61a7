#include "option_values.hpp"

#include "base/error.hpp"

#include <boost/program_options.hpp>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

namespace po = boost::program_options;

/// The message, or nothing.
std::string complaint(const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("memory", po::value<bool>()->value_name("true|false"))("steps", po::value<int>())(
      "wire", po::value<std::vector<std::string>>()->multitoken())("help", po::bool_switch());
  try {
    check_values_follow(arguments, options);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an option without its value is named") {
  CHECK(complaint({"--memory", "--steps", "3"}) ==
        "--memory lacks its value before --steps: write --memory true|false");
  CHECK(complaint({"--steps", "3", "--memory"}) == "--memory lacks its value: write --memory true|false");
  CHECK(complaint({"--wire", "--steps=3"}) == "--wire lacks its value before --steps=3: write --wire VALUE");
}

TEST_CASE("what has its values passes") {
  CHECK(complaint({}).empty());
  CHECK(complaint({"--memory", "true", "--steps", "-3", "--wire", "a", "b", "--help"}).empty());
  CHECK(complaint({"--wire", "--unknown"}).empty());
  CHECK(complaint({"--wire=--steps", "--help", "--steps", "3"}).empty());
  CHECK(complaint({"word", "--walk", "--steps", "3"}).empty());
}

TEST_CASE("seeds are whole numbers of 64 bits, and none is negative") {
  CHECK(parse_seed("0") == 0);
  CHECK(parse_seed("18446744073709551615") == ~uint64_t{0});
  for (const char* text : {"-1", "-0", "+1", "", " 1", "1 ", "1e3", "0x1", "1.0", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_seed(text), doctest::Contains("--seed"), Error);
  }
}

TEST_CASE("escapes stand for what shells make hard to write, and no others pass") {
  CHECK(unescape("separator", "").empty());
  CHECK(unescape("separator", R"(a\n\tb\\n)") == "a\n\tb\\n");
  for (const char* text : {R"(\)", R"(a\)", R"(\r)", R"(\x41)", R"(\N)", R"(\\\)"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(unescape("separator", text), doctest::Contains("--separator"), Error);
  }
}

}  // namespace gpt
