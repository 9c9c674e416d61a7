#pragma once

#include "fuzz/draws.hpp"

#include <functional>
#include <string>
#include <vector>

namespace gpt::fuzz {

/// A file that is changed, and the readers that then have to cope with it.
struct Subject {
  std::string name;
  std::string file;  ///< that is changed
  std::string seed;  ///< its bytes as they should be
  /// The file of a case.
  std::function<std::string(const std::string& seed, Draws& draws)> change;
  /// Reads it all, by every reader there is. True if any of them took it. @throws Error
  std::function<bool()> read;
  /// Every change has to be noticed.
  bool must_refuse = false;
  /// HDF5 parses bytes that nobody has verified: a crash of its own is counted, and no failure of ours.
  bool hdf5_sees_changes = false;
};

/// Writes whole files into `folder`, of which subjects are changes. Starts MPI.
void write_seeds(const std::string& folder);

/// Reads what write_seeds wrote, without HDF5.
std::vector<Subject> make_subjects(const std::string& folder);

}  // namespace gpt::fuzz
