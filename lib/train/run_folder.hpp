#pragma once

#include <memory>
#include <string>

namespace gpt {

class Lease;

/// A run's folder, held by one job at a time. The lease is a file `lease.json` with host, process, its start
/// time and Slurm job id, renewed by a thread every 10 s. The same Slurm job takes it over at once; on the
/// same host a lease whose process is gone is void at once; elsewhere after 60 s without renewal.
class RunFolder {
public:
  /// Creates the folder (and its parents) and takes the lease. For rank 0 only.
  /// @throws Error(usage) naming the holder if another job has it, or naming the folder and the reason if it
  ///         cannot be created or written
  explicit RunFolder(const std::string& path);
  ~RunFolder();  ///< gives the lease back

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }

  /// For use before something is saved, on any thread: a job that stood still for a minute may have lost its
  /// folder. As Lease::confirm.
  void confirm() const;

  /// Replaces a small text file in the folder: written aside, synced, renamed. @throws Error naming the
  /// reason
  void write_text(const std::string& name, const std::string& text) const;

private:
  std::string path_;
  std::unique_ptr<Lease> lease_;
};

}  // namespace gpt
