#include "data/file_io.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace gpt {
namespace {

std::string reason() { return std::generic_category().message(errno); }

void sync(const std::string& path, int flags) {
  const FileHandle file(::open(path.c_str(), flags | O_CLOEXEC));
  const bool done = file && ::fsync(file.get()) == 0;  // before errno is read: arguments have no order
  validate(done, ExitCode::failed, "cannot bring {} to the disk: {}", path, reason());
}

/// For files that say they are empty: those of /proc have no size, but contents.
int64_t count_bytes(const FileHandle& file, const std::string& path) {
  std::vector<std::byte> piece(size_t{1} << 16);
  for (int64_t bytes = 0;;) {
    const int64_t got = read_at(file, path, bytes, piece);
    bytes += got;
    if (got < std::ssize(piece)) return bytes;
  }
}

}  // namespace

void FileTraits::release(type descriptor) { ::close(descriptor); }

FileHandle open_regular_file(const std::string& path) {
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not make it wait
  validate(static_cast<bool>(file), "cannot read {}: {}", path, reason());
  struct stat status {};
  validate(::fstat(file.get(), &status) == 0, "cannot read {}: {}", path, reason());
  validate(S_ISREG(status.st_mode),
           "cannot read {}: it is not a regular file; write its contents into one first", path);
  return file;
}

int64_t file_size(const FileHandle& file, const std::string& path) {
  struct stat status {};
  validate(::fstat(file.get(), &status) == 0, ExitCode::failed, "cannot examine {}: {}", path, reason());
  return status.st_size > 0 ? status.st_size : count_bytes(file, path);
}

int64_t read_at(const FileHandle& file, const std::string& path, int64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(file.get(), out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got == 0) break;
    if (got > 0) {
      done += static_cast<size_t>(got);
      continue;
    }
    validate(errno == EINTR, ExitCode::failed, "reading {} at byte {} failed: {}", path,
             offset + static_cast<int64_t>(done), reason());
  }
  return static_cast<int64_t>(done);
}

void write_at(const FileHandle& file, const std::string& path, int64_t offset,
              std::span<const std::byte> bytes, const FileFault& fault) {
  if (fault.error != 0) check_file(fault, ExitCode::failed, fmt::format("writing {} failed", path));
  if (fault.damages()) return write_at(file, path, offset, damaged(bytes, fault));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put =
        ::pwrite(file.get(), bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (put > 0) {
      done += static_cast<size_t>(put);
      continue;
    }
    validate(put < 0 && errno == EINTR, ExitCode::failed, "writing {} failed: {}", path, reason());
  }
}

FileHandle open_nameless_file(const std::string& folder) {
  std::string name = folder + "/.gpt_data-XXXXXX";
  FileHandle file(::mkostemp(name.data(), O_CLOEXEC));
  validate(static_cast<bool>(file), ExitCode::failed, "cannot make a temporary file in {}: {}", folder,
           reason());
  ::unlink(name.c_str());
  return file;
}

void begin_sync(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) ::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
}

void sync_files(std::span<const std::string> paths) {
  // Once all of them are on their way, the first fsync makes the file system commit for the others too.
  for (const std::string& path : paths) begin_sync(path);
  // What is left of an fsync is the disk emptying its cache, once for all that wait for it together. Where
  // there are no threads to be had, one waits after the other.
  const size_t threads = std::min<size_t>(paths.size(), 32);
  std::vector<std::future<void>> parts;
  for (size_t thread = 0; thread < threads; ++thread) {
    parts.push_back(std::async([paths, thread, threads] {
      for (size_t i = thread; i < paths.size(); i += threads) sync(paths[i], O_RDONLY);
    }));
  }
  for (auto& part : parts) part.get();
}

void sync_folder(const std::string& path) { sync(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY); }

void rename_file(const std::string& from, const std::string& to) {
  const bool done = std::rename(from.c_str(), to.c_str()) == 0;
  validate(done, ExitCode::failed, "cannot rename {} to {}: {}", from, to, reason());
}

void publish_file(const std::string& partial, const std::string& path) {
  sync(partial, O_RDONLY);
  rename_file(partial, path);
  sync_folder(std::filesystem::path(path).parent_path().string());
}

std::string read_small_file(const std::string& path, int64_t limit) {
  const FileHandle file = open_regular_file(path);
  const int64_t size = file_size(file, path);
  validate(size <= limit, "{} has {} bytes: at most {} are expected here", path, size, limit);
  std::string text(static_cast<size_t>(size), '\0');
  const int64_t got = read_at(file, path, 0, std::as_writable_bytes(std::span(text)));
  text.resize(static_cast<size_t>(got));
  return text;
}

}  // namespace gpt
