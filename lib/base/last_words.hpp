#pragma once

#include <string>

namespace gpt {

/// From now on SIGINT and SIGTERM write `line` to standard error and then end the process as they would have
/// without. A standard error that takes nothing now gets nothing; a signal that was ignored stays so. Once a
/// process.
/// @param told  a file; where it exists, somebody has said why already, and nothing more is said
void say_before_signals_end_it(std::string line, std::string told);

}  // namespace gpt
