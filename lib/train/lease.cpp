#include "train/lease.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/notice.hpp"
#include "base/thread.hpp"

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <span>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

constexpr size_t longest_lease = size_t{64} << 10;  // bytes
constexpr int longest_wait = 1000;                  // turns; one that waits for a lock takes a millisecond

std::string reason(int failure) { return std::generic_category().message(failure); }

struct stat status_of(const FileHandle& file, const std::string& path) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    throw Error(fmt::format("cannot examine {}: {}", path, reason(errno)), ExitCode::usage);
  return status;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::chrono::nanoseconds time_of(const struct stat& status) {
  return std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
}

std::optional<LeaseHolder> read_lease(const FileHandle& file) {
  std::string text(longest_lease, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) return std::nullopt;
  text.resize(static_cast<size_t>(got));
  return parse_lease(text);
}

/// For writing where that is allowed, since network file systems lock no other files.
FileHandle open_lease(const std::string& path) {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  FileHandle file(open(path.c_str(), O_RDWR | flags));
  if (!file && errno != ENOENT) file.reset(open(path.c_str(), O_RDONLY | flags));
  return file;
}

/// False, after a moment, while another process has the lock. True without one where the file system has
/// none: what is left then is a window of microseconds, and the loser notices at its next save.
bool lock_lease(const FileHandle& file) {
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }
  return true;
}

}  // namespace

Lease::Lease(const std::string& folder) : folder_(folder), path_(folder + "/lease.json") {
  take(Other::judge);
  renewer_ = start_thread("renewing the lease of the run folder",
                          [this](const std::stop_token& stop) { keep_renewing(stop); });
}

Lease::~Lease() {
  renewer_ = {};
  for (int turn = 0; turn < longest_wait && is_held(); ++turn) {
    if (!lock_lease(file_)) continue;
    if (is_held()) unlink(path_.c_str());
    return;
  }
}

void Lease::take(Other other) {
  std::string mine = folder_ + "/.lease-XXXXXX";
  FileHandle file(mkostemp(mine.data(), O_CLOEXEC));
  validate(static_cast<bool>(file), "cannot write into the run folder {}: {}", folder_, reason(errno));
  try {
    acquire(file, mine, other);
  } catch (...) {
    unlink(mine.c_str());
    throw;
  }
  unlink(mine.c_str());
  const std::lock_guard lock(mutex_);
  file_ = std::move(file);
}

void Lease::acquire(const FileHandle& file, const std::string& mine, Other other) const {
  const LeaseHolder self = this_holder();
  const std::string text = to_json(self);
  write_at(file, mine, 0, std::as_bytes(std::span(text)), file_point("lease.write"));
  fchmod(file.get(), 0644);
  // Each turn loses against another process at most; when many start at once, one of them holds it by then.
  for (int turn = 0; turn < longest_wait; ++turn) {
    if (publish(file, mine)) return;
    validate(other == Other::judge, "another process has just taken the lease {}", path_);
    clear_way(file, mine, self);
  }
  throw Error(
      fmt::format("the lease {} changes hands all the time: start one job at a time in a run folder", path_),
      ExitCode::usage);
}

/// Gives the finished lease its name, unless there is one.
bool Lease::publish(const FileHandle& file, const std::string& mine) const {
  if (link(mine.c_str(), path_.c_str()) == 0) return true;
  int failure = errno;
  if (failure != EEXIST) {
    // Some network file systems report a failure of a link that was made, others have no links.
    if (status_of(file, mine).st_nlink == 2) return true;
    failure = renameat2(AT_FDCWD, mine.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  }
  validate(failure == 0 || failure == EEXIST, "cannot take the lease {}: {}", path_, reason(failure));
  return failure == 0;
}

/// Removes a void lease. @throws Error(usage) if it is valid
void Lease::clear_way(const FileHandle& file, const std::string& mine, const LeaseHolder& self) const {
  const FileHandle found = open_lease(path_);
  if (!found) {
    validate(errno == ENOENT, "cannot read the lease {}: {}", path_, reason(errno));
    return;
  }
  const struct stat judged = status_of(found, path_);
  validate(S_ISREG(judged.st_mode), "the lease {} is not a regular file: move it out of the way", path_);
  const std::optional<LeaseHolder> holder = read_lease(found);
  // The age by the clock that stamped the lease: that of the file system, which may be another machine's.
  futimens(file.get(), nullptr);
  const std::chrono::nanoseconds age = time_of(status_of(file, mine)) - time_of(judged);
  validate(is_void(holder, self, age),
           "run folder {} is in use by {}, which gave a sign of life {} s ago: wait until it ends or choose "
           "another "
           "folder (a lease from another host is void {} s after the last sign of life)",
           folder_, describe(holder), std::chrono::duration_cast<std::chrono::seconds>(age).count(),
           life.count());

  // Whoever removes this file's name holds its lock, and looks again under it: the name may belong to the new
  // lease of one that was faster by now, or the holder may have woken up.
  fault_point("lease.takeover");
  if (!lock_lease(found)) return;
  const FileHandle named = open_lease(path_);
  if (!named) return;
  const struct stat now = status_of(named, path_);
  if (!same_file(now, judged) || time_of(now) != time_of(judged)) return;
  const int failure = unlink(path_.c_str()) == 0 ? 0 : errno;
  validate(failure == 0 || failure == ENOENT, "cannot remove the void lease {}: {}", path_, reason(failure));
}

bool Lease::is_held() const {
  const std::lock_guard lock(mutex_);
  struct stat named {};
  return stat(path_.c_str(), &named) == 0 && same_file(named, status_of(file_, path_));
}

void Lease::confirm() {
  if (!is_held()) {
    const FileHandle found = open_lease(path_);
    const int failure = errno;
    if (found && !is_held()) refuse(read_lease(found));
    validate(found || failure == ENOENT, ExitCode::failed, "cannot look at the lease {}: {}", path_,
             reason(failure));
    if (!found) recover();
  }
  const std::string failure = renew();
  validate(failure.empty(), ExitCode::failed,
           "{}: nothing is saved, since another job may have the folder soon", failure);
  const std::lock_guard lock(mutex_);
  expired_ = false;  // nobody has come meanwhile
}

/// Another file has the lease's name.
void Lease::refuse(const std::optional<LeaseHolder>& holder) const {
  validate(holder.has_value(), ExitCode::failed, "whose the lease {} is now cannot be read", path_);
  throw Error(fmt::format("run folder {} was taken over by {}: this job stops", folder_, describe(holder)),
              ExitCode::usage);
}

/// The lease's name is gone, and its folder with it, perhaps, for a moment.
void Lease::recover() {
  {
    const std::lock_guard lock(mutex_);
    validate(!expired_ && std::chrono::steady_clock::now() - renewed_ < life,
             "the lease {} is gone, and this job gave no sign of life for {} s before: another may have used "
             "the folder; this job stops",
             path_, life.count());
  }
  struct stat folder {};
  const int failure = stat(folder_.c_str(), &folder) == 0 ? 0 : errno;
  validate(failure != ENOENT, ExitCode::failed, "the run folder {} is gone", folder_);
  validate(failure == 0, ExitCode::failed, "cannot look at the run folder {}: {}", folder_, reason(failure));
  try {
    take(Other::respect);
  } catch (const Error& error) {
    throw Error(error.what(), ExitCode::failed);  // who has it is told by the next look
  }
}

std::string Lease::renew() {
  std::string problem;
  try {
    const int failure = file_point("lease.renew").error;
    if (failure != 0) problem = reason(failure);
  } catch (const Error& error) {
    problem = error.what();
  }
  const std::lock_guard lock(mutex_);
  if (problem.empty() && futimens(file_.get(), nullptr) != 0) problem = reason(errno);
  if (problem.empty()) {
    const auto now = std::chrono::steady_clock::now();
    expired_ = expired_ || now - renewed_ >= life;
    renewed_ = now;
    return failure_ = "";
  }
  if (failure_.empty()) failure_ = fmt::format("cannot renew the lease {}: {}", path_, problem);
  if (!noticed_) {
    noticed_ = true;
    notice(fmt::format("notice: {}; another job may take the folder over {} s after the last renewal",
                       failure_, life.count()));
  }
  return failure_;
}

void Lease::keep_renewing(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, stop, renewal, [] { return false; }) && !stop.stop_requested()) renew();
}

}  // namespace gpt
