#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpt::test {

/// Runs one skipped case of this test program in a process of its own, without this one's MPI and with
/// `settings` ("NAME=value NAME=value") in its environment. True if the case passed.
inline bool run_alone(const std::string& test_case, const std::string& settings) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  // What MPI leaks at its end is no result of the case.
  const std::string command =
      "env -i PATH=/usr/bin:/bin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "ASAN_OPTIONS=detect_leaks=0 " +
      settings + " '" + program + "' --no-skip --test-case='" + test_case + "' >&2";
  return std::system(command.c_str()) == 0;
}

}  // namespace gpt::test
