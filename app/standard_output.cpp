#include "standard_output.hpp"

#include "base/error.hpp"

namespace gpt {

void check_output() {
  const bool flushed = std::fflush(stdout) == 0;
  validate(flushed && std::ferror(stdout) == 0, ExitCode::failed, "cannot write standard output");
}

}  // namespace gpt
