#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpt {

/// Why a job failed: the contents of `verdict.json` in its run folder (docs/exit-codes.md).
struct Verdict {
  int exit_code = 1;
  std::optional<int> rank;  ///< that failed or that the others wait for; nothing: no single one
  std::string host;         ///< of that rank
  int64_t step = 0;
  std::string phase;
  std::string reason;
  int reporter = 0;  ///< the rank that wrote this
};

/// Writes `verdict.json` unless there is one: the first rank that fails wins. A reader sees all of it or
/// nothing. False if another one stands there: that rank has told why. Never throws: what cannot be written
/// stands in the message as well.
bool write_verdict(const std::string& folder, const Verdict& verdict) noexcept;

/// Removes what an earlier attempt left. For the holder of the run folder.
void remove_verdict(const std::string& folder);

}  // namespace gpt
