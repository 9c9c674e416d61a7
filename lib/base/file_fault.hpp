#pragma once

#include "base/exit_code.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// What an injected fault makes of an operation on a file: it fails with `error`, or it is said to have
/// succeeded while the disk holds something else.
struct FileFault {
  int error = 0;       ///< errno; 0: none
  bool flips = false;  ///< one bit of what is written is another one
  bool cuts = false;   ///< only the first half of it arrives
  uint64_t place = 0;  ///< random: which bit

  bool damages() const { return flips || cuts; }
};

/// Nothing if the fault has no `error`. @throws Error(code) of the form "`doing`: the system's words"
void check_file(const FileFault& fault, ExitCode code, std::string_view doing);

/// What arrives of `bytes`.
std::vector<std::byte> damaged(std::span<const std::byte> bytes, const FileFault& fault);

}  // namespace gpt
