#pragma once

#include "data/file_io.hpp"

#include <string>

namespace gpt {

/// A text file that grows line by line. Once it is open it never ends a run: what a full disk does not take
/// is lost, and said on standard error when the losing begins and when it ends.
class AppendFile {
public:
  /// @param truncate  begin anew; otherwise a line torn by a crash is ended first
  /// @throws Error(usage) if there is something of that name that is no regular file; Error if it cannot be
  /// written
  AppendFile(std::string path, bool truncate);

  /// Whole lines, each with its line break.
  void append(const std::string& lines);

private:
  std::string path_;
  FileHandle file_;
  bool losing_ = false;
  bool torn_ = false;  // the file ends inside a line
};

}  // namespace gpt
