#include "train/save_files.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace gpt {
namespace {

[[noreturn]] void fail(std::string_view what, const std::string& path, int failure) {
  throw Error(fmt::format("{} {}: {}", what, path, std::generic_category().message(failure)),
              ExitCode::saving_failed);
}

FileHandle open_written(const std::string& path) {
  FileHandle file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail("cannot open", path, errno);
  return file;
}

bool cannot_reserve(int failure) {
  return failure == EOPNOTSUPP || failure == ENOSYS || failure == EINVAL || failure == ENODEV;
}

void compare_free_space(const FileHandle& file, const std::string& path, int64_t bytes) {
  struct statvfs space {};
  struct stat status {};
  if (fstatvfs(file.get(), &space) != 0 || fstat(file.get(), &status) != 0)
    fail("cannot examine", path, errno);
  const int64_t missing = bytes - int64_t{status.st_blocks} * 512;
  const auto available = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  validate(missing <= available, ExitCode::saving_failed, "{} needs {} more bytes, the file system has {}",
           path, missing, available);
}

void reserve(const FileHandle& file, const std::string& path, int64_t bytes) {
  // Not posix_fallocate: where the file system cannot reserve, that one writes into every block.
  int failure = file_point("save.reserve").error;
  while (failure == 0 && fallocate(file.get(), 0, 0, bytes) != 0) failure = errno == EINTR ? 0 : errno;
  if (cannot_reserve(failure)) return compare_free_space(file, path, bytes);
  if (failure != 0) fail(fmt::format("cannot reserve {} bytes in", bytes), path, failure);
}

bool exists(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT) fail("cannot examine", path, errno);
  return false;
}

/// The first of "PATH.set-aside-1", … that is free.
std::string free_name(const std::string& path) {
  for (int64_t number = 1;; ++number) {
    std::string name = fmt::format("{}.set-aside-{}", path, number);
    if (!exists(name)) return name;
  }
}

/// As far as it can: there is an error on its way already.
void undo_set_aside(const std::string& aside, const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0)
    unlink(aside.c_str());  // a second name of what is still there
  else
    std::rename(aside.c_str(), path.c_str());
}

/// "step-00000020.h5.partial", "step-00000020.h5.partial.set-aside-3"
bool is_partial_save(std::string_view name) {
  constexpr std::string_view partial = ".h5.partial", aside = ".set-aside-";
  const size_t at = name.find(partial);
  if (!name.starts_with("step-") || at == std::string_view::npos) return false;
  const std::string_view rest = name.substr(at + partial.size());
  return rest.empty() || rest.starts_with(aside);
}

void sync(const FileHandle& file, const std::string& path) {
  int failure = file_point("save.sync").error;
  if (failure == 0 && fsync(file.get()) != 0) failure = errno;
  if (failure != 0) fail("cannot bring to the disk", path, failure);
}

}  // namespace

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (!error) return;
  std::error_code none;
  const std::filesystem::path target = std::filesystem::read_symlink(path, none);
  validate(none || std::filesystem::exists(path, none), ExitCode::saving_failed,
           "cannot make the folder {}: it is a link to {}, which is gone", path, target.string());
  fail("cannot make the folder", path, error.value());
}

void check_size_limit(int64_t bytes) {
  // Asked beforehand, because a write beyond the limit ends the process by a signal.
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  validate(
      bytes <= static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX)), ExitCode::saving_failed,
      "the checkpoint needs {} bytes, files of this process may have {} (ulimit -f)", bytes, limit.rlim_cur);
}

void reserve_space(const std::string& path, int64_t bytes) { reserve(open_written(path), path, bytes); }

FileHandle hold_room(const std::string& folder, int64_t bytes) {
  FileHandle file = open_nameless_file(folder);
  reserve(file, folder, bytes);
  return file;
}

void remove_partial_saves(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // what cannot be looked at is left alone
    const bool is_file = std::filesystem::is_regular_file(entry->symlink_status(ignored));
    if (is_file && is_partial_save(entry->path().filename().string()))
      found.push_back(entry->path().string());
  }
  if (error) fail("cannot list", folder, error.value());
  for (const std::string& path : found)
    if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("cannot remove the partial save", path, errno);
}

void set_aside(const std::string& path) {
  if (!exists(path)) return;
  const std::string aside = free_name(path);
  if (std::rename(path.c_str(), aside.c_str()) != 0) fail("cannot set aside", path, errno);
}

void publish_checkpoint(const std::string& partial, const std::string& path) {
  std::optional<std::string> aside;
  if (exists(path)) {
    aside = free_name(path);
    if (link(path.c_str(), aside->c_str()) != 0 && std::rename(path.c_str(), aside->c_str()) != 0)
      fail("cannot set aside", path, errno);
  }
  try {
    check_file(file_point("save.rename"), ExitCode::saving_failed, "cannot rename " + partial);
    publish_file(partial, path);
  } catch (...) {
    if (aside && exists(partial)) undo_set_aside(*aside, path);
    throw;
  }
}

void forget_cached(const std::string& path) {
  posix_fadvise(open_written(path).get(), 0, 0, POSIX_FADV_DONTNEED);
}

void sync_file(const std::string& path) { sync(open_written(path), path); }

void write_synced(const std::string& path, int64_t offset, std::span<const std::byte> bytes,
                  const FileFault& fault) {
  const FileHandle file = open_written(path);
  write_at(file, path, offset, bytes, fault);
  sync(file, path);
}

}  // namespace gpt
