#pragma once

#include "data/file_io.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpt {

/// The folder, within one that is there: a run folder that has vanished is not made anew.
/// @throws Error(saving_failed)
void make_folder(const std::string& path);

/// Makes sure that `file` can grow to `bytes`, before anybody writes into it: a full disk found by parallel
/// writes is reported late, by some ranks only, or not at all. Where the file system cannot reserve, its free
/// space is compared.
/// @throws Error(saving_failed) saying what is missing
void reserve_space(const std::string& file, int64_t bytes);

/// Room in `folder` that a nameless file holds until the handle closes. @throws Error(saving_failed)
FileHandle hold_room(const std::string& folder, int64_t bytes);

/// @throws Error(saving_failed) if this process may not write files of that size (ulimit -f)
void check_size_limit(int64_t bytes);

/// Removes what broken-off saves left in `folder`: files "step-….h5.partial", under whatever set-aside name.
/// For who has the folder to himself, and no save open. @throws Error(saving_failed)
void remove_partial_saves(const std::string& folder);

/// Renames what stands under `path` to the first free of "PATH.set-aside-1", "PATH.set-aside-2", …; nothing
/// happens if nothing stands there. @throws Error(saving_failed)
void set_aside(const std::string& path);

/// Makes the finished file `partial`, whose contents are on the disk, appear as `path`. What stands there
/// gets the first free set-aside name as a second name and keeps the first until the new file takes it: a
/// crash leaves one or the other under `path`. Where there are no hard links (or a folder stands there) it is
/// renamed just before. After an error all names are as they were, unless only the folder could not be
/// synced.
/// @throws Error
void publish_checkpoint(const std::string& partial, const std::string& path);

/// Asks the system to let go of its copy of a file that is on the disk, so that whoever reads it next reads
/// the disk. Systems may keep it all the same. @throws Error(saving_failed) if the file cannot be opened
void forget_cached(const std::string& path);

/// Brings the contents of a file that this node's processes wrote to the disk. @throws Error(saving_failed)
void sync_file(const std::string& path);

/// Writes into an existing file and brings it to the disk. @param fault  what a fault point made of this
/// write
/// @throws Error(saving_failed)
void write_synced(const std::string& path, int64_t offset, std::span<const std::byte> bytes,
                  const FileFault& fault = {});

}  // namespace gpt
