#pragma once

#include "base/integers.hpp"
#include "data/file_io.hpp"
#include "train/ledger_format.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// The folder of a run's ledger: `reads/` in the run folder.
std::string ledger_folder(const std::string& run_folder);

/// The ledger's file of one start of a run, `start-000003.bin`: the next number that is free. It grows by
/// whole groups, and only what commit() has brought to the disk counts.
class LedgerFile {
public:
  /// Makes the folder and the file. @throws Error(saving_failed)
  explicit LedgerFile(const std::string& run_folder);

  /// Behind what was written before. @throws Error
  void write(std::string_view groups);
  /// To the disk. @throws Error
  void commit();
  /// Forgets what was written since the last commit.
  void give_up() noexcept;

private:
  std::string path_;
  FileHandle file_;
  int64_t committed_ = 0;  // bytes
  int64_t end_ = 0;
};

/// The ledger's files, in the order in which they were begun.
std::vector<std::string> list_ledger(const std::string& run_folder);

/// Gives the file's groups that are whole, in order, and returns the bytes between them that are none: what
/// was torn off at the end, or was damaged. Holds a group at a time.
/// @throws Error naming the file if it cannot be read; what `take` throws
std::vector<Range> read_groups(const std::string& file, const std::function<void(const LedgerGroup&)>& take);

}  // namespace gpt
