#pragma once

#include <string>
#include <vector>

namespace gpt {

/// A folder that is to become a dataset, and a hidden folder in it that the files are written into. Until
/// publish() a dataset that is there stays as it is.
class OutputFolder {
public:
  /// Makes the folder if needed. @throws Error(usage) if it is not empty, unless `overwrite` and it holds a
  /// dataset or what is left of one
  OutputFolder(std::string path, bool overwrite);

  /// Removes what was not published, and the folder too if it was made here and holds nothing else.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Where to write; on the same file system as path(). Made when first asked for.
  const std::string& staging();

  /// Brings `shards` and the manifest in staging() to the disk and exchanges them for a former dataset's
  /// files (and no others), with renames only: the old manifest goes first, the new one comes last.
  /// @throws Error after the former dataset is back in its place
  void publish(const std::vector<std::string>& shards);

private:
  void exchange(const std::vector<std::string>& shards, const std::string& former);

  std::string path_;
  std::string staging_;
  bool made_ = false;
};

}  // namespace gpt
