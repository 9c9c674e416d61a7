#pragma once

#include "base/file_fault.hpp"
#include "base/handle.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpt {

struct FileTraits {
  using type = int;
  static type null() { return -1; }
  static void release(type descriptor);
};
using FileHandle = Handle<FileTraits>;

/// A regular file open for reading. @throws Error(usage) naming file and reason
FileHandle open_regular_file(const std::string& path);

/// Bytes that can be read; counted by reading where the system gives none, as for files of /proc.
/// @throws Error naming file and reason
int64_t file_size(const FileHandle& file, const std::string& path);

/// Fills `out` from byte `offset` on; returns fewer bytes only at the end of the file.
/// @throws Error naming file and reason
int64_t read_at(const FileHandle& file, const std::string& path, int64_t offset, std::span<std::byte> out);

/// @param fault  what a fault point made of this write @throws Error naming file and reason
void write_at(const FileHandle& file, const std::string& path, int64_t offset,
              std::span<const std::byte> bytes, const FileFault& fault = {});

/// A temporary file that has no name and is gone when it is closed, on the same disk as `folder`.
FileHandle open_nameless_file(const std::string& folder);

/// Lets the disk begin to write what the system holds of a file, without waiting for it.
void begin_sync(const std::string& path);

/// Contents on the disk before it returns. For many small files much faster than one after the other.
void sync_files(std::span<const std::string> paths);

/// Which names a folder holds is on the disk before it returns.
void sync_folder(const std::string& path);

void rename_file(const std::string& from, const std::string& to);

/// Makes the finished file `partial` appear as `path`: contents on the disk first, then the name.
void publish_file(const std::string& partial, const std::string& path);

/// The whole of a small file. @throws Error(usage) if it is longer than `limit`
std::string read_small_file(const std::string& path, int64_t limit);

}  // namespace gpt
