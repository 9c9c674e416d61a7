#pragma once

#include <boost/program_options/options_description.hpp>
#include <string>
#include <vector>

namespace gpt {

/// Finds an option without its value, which Boost would take the next option for.
/// @throws Error(usage) naming the first option that needs a value and is followed by another option or by
///         nothing. "--name=--other" gives a value that looks like an option.
void check_values_follow(const std::vector<std::string>& arguments,
                         const boost::program_options::options_description& options);

}  // namespace gpt
