#pragma once

#include "data/file_io.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace gpt {

/// Who holds a lease. A process is known by its id and start time, since ids come again; its host by name and
/// boot, and the namespace in which the id counts.
struct LeaseHolder {
  std::string host;
  std::string boot;
  std::string pid_namespace;
  int64_t process = 0;
  int64_t start = 0;  ///< clock ticks after boot, /proc/PID/stat field 22
  std::string job;    ///< SLURM_JOB_ID; empty outside Slurm

  bool operator==(const LeaseHolder&) const = default;
};

LeaseHolder this_holder();
std::string to_json(const LeaseHolder& holder);

/// Nothing unless `text` is what to_json writes.
std::optional<LeaseHolder> parse_lease(const std::string& text);

/// "process 71 on host n1 (Slurm job 9)", for messages; tolerates an unreadable lease.
std::string describe(const std::optional<LeaseHolder>& holder);

/// Whether `self` may take over a lease now, `age` after its last renewal by the file system's clock. An
/// unreadable lease counts as one from elsewhere.
bool is_void(const std::optional<LeaseHolder>& holder, const LeaseHolder& self, std::chrono::nanoseconds age);

/// The file `lease.json` in a folder, held by this process and renewed until it is destroyed.
class Lease {
public:
  static constexpr std::chrono::seconds renewal{10};
  static constexpr std::chrono::seconds life{60};

  /// @throws Error(usage) naming the holder, or the reason why the folder cannot be written
  explicit Lease(const std::string& folder);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// False once another process has taken it over, or as long as it cannot be seen.
  bool is_held() const;

  /// Makes sure that nobody else holds the folder, and gives a sign of life. A lease that was deleted is
  /// taken anew, unless it had expired before: then another job may have come and gone.
  /// @throws Error(usage) naming the new holder if another process has it now, or may have had it
  /// @throws Error(failed) if that cannot be told, or the lease not be renewed: later it may
  void confirm();

  /// A sign of life now, beside those that the thread gives. Why it could not be given, since when: the first
  /// failure after the last success; empty if it was given.
  std::string renew();

private:
  /// What to do about a lease that is there already.
  enum class Other { judge, respect };

  void take(Other other);
  void acquire(const FileHandle& file, const std::string& mine, Other other) const;
  bool publish(const FileHandle& file, const std::string& mine) const;
  void clear_way(const FileHandle& file, const std::string& mine, const LeaseHolder& self) const;
  [[noreturn]] void refuse(const std::optional<LeaseHolder>& holder) const;
  void recover();
  void keep_renewing(const std::stop_token& stop);

  std::string folder_;
  std::string path_;
  mutable std::mutex mutex_;
  FileHandle file_;      // this lease's inode, whatever its name now
  std::string failure_;  // the first since the last renewal that succeeded
  bool noticed_ = false;
  std::chrono::steady_clock::time_point renewed_ = std::chrono::steady_clock::now();
  bool expired_ = false;  // once: there was no sign of life for as long as a lease lives
  std::jthread renewer_;
};

}  // namespace gpt
