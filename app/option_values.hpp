#pragma once

#include <boost/program_options/options_description.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

/// Finds an option without its value, which Boost would take the next option for.
/// @throws Error(usage) naming the first option that needs a value and is followed by another option or by
///         nothing. "--name=--other" gives a value that looks like an option.
void check_values_follow(const std::vector<std::string>& arguments,
                         const boost::program_options::options_description& options);

/// The value of --seed: 0 to 2^64 - 1. @throws Error(usage) for anything else. Boost would take -1 for 2^64
/// - 1.
uint64_t parse_seed(const std::string& text);

/// \n, \t and \\ as the characters that shells make hard to write. @throws Error(usage) naming `option` for a
/// backslash before anything else
std::string unescape(const std::string& option, const std::string& text);

}  // namespace gpt
