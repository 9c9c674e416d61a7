#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gpt::fuzz {

/// What came of cases that ran in a process of their own.
struct BatchEnd {
  uint64_t next = 0;  ///< number of the first case that did not run
  uint64_t accepted = 0;
  uint64_t refused = 0;
  std::string failure;   ///< of the case before `next`: how the process ended; empty: it did not fail
  bool in_hdf5 = false;  ///< it crashed, or hung, in HDF5's own code
};

enum class CaseEnd { accepted, refused };

/// Runs cases from `first` on, in a forked process, until one fails or `wanted` says no.
/// @param run  one case; what it throws, and a crash or ten seconds of computing in it, are failures
BatchEnd run_batch(uint64_t first, const std::function<bool(uint64_t)>& wanted,
                   const std::function<CaseEnd(uint64_t)>& run);

/// For the sanitizer, before its report: whose code it found something in.
void note_sanitizer_finding();

/// Does `work` in a forked process. @throws std::runtime_error if that fails
void run_apart(const std::function<void()>& work);

}  // namespace gpt::fuzz
