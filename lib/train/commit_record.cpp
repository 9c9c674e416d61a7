#include "train/commit_record.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/file_io.hpp"

#include <algorithm>
#include <string_view>

namespace gpt {
namespace {

constexpr std::string_view magic = "GPTMPICK";

// Offsets in the record. All numbers are 64 bits, little-endian.
constexpr size_t at_format = 8;
constexpr size_t at_step = 16;
constexpr size_t at_run_id = 24;
constexpr size_t at_branch = 32;
constexpr size_t at_parent_step = 40;
constexpr size_t at_file_size = 48;
constexpr size_t at_digest = 56;
constexpr size_t at_extent_count = 64;
constexpr size_t at_extents = 72;
constexpr size_t at_checksum = CommitRecord::bytes - 8;
static_assert(at_extents + 16 * CommitRecord::most_extents <= at_checksum);

void put(std::span<std::byte> raw, size_t offset, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) raw[offset + i] = static_cast<std::byte>(value >> (8 * i));
}

void put(std::span<std::byte> raw, size_t offset, int64_t value) {
  put(raw, offset, static_cast<uint64_t>(value));
}

uint64_t get(std::span<const std::byte> raw, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= static_cast<uint64_t>(raw[offset + i]) << (8 * i);
  return value;
}

int64_t get_signed(std::span<const std::byte> raw, size_t offset) {
  return static_cast<int64_t>(get(raw, offset));
}

std::vector<Range> get_extents(std::span<const std::byte> raw, int64_t end) {
  const uint64_t count = get(raw, at_extent_count);
  validate(count <= CommitRecord::most_extents, ExitCode::damaged, "its commit record lists {} extents",
           count);
  std::vector<Range> extents;
  int64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    const Range extent{get_signed(raw, at_extents + 16 * i), get_signed(raw, at_extents + 16 * i + 8)};
    validate(extent.begin >= last && extent.end >= extent.begin && extent.end <= end, ExitCode::damaged,
             "its commit record lists an extent from byte {} to {}, which is out of place", extent.begin,
             extent.end);
    last = extent.end;
    extents.push_back(extent);
  }
  return extents;
}

/// As a damaged file, whatever the reading functions call it.
FileHandle open_checked(const std::string& file) {
  try {
    return open_regular_file(file);
  } catch (const Error& error) {
    throw Error(error.what(), ExitCode::damaged);
  }
}

void hash_range(StreamHash& hash, const FileHandle& file, const std::string& path, Range range) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<int64_t>(range.size(), int64_t{1} << 20)));
  for (int64_t begin = range.begin; begin < range.end; begin += std::ssize(buffer)) {
    const std::span piece(buffer.data(),
                          static_cast<size_t>(std::min(std::ssize(buffer), range.end - begin)));
    validate(read_at(file, path, begin, piece) == std::ssize(piece), ExitCode::damaged,
             "{}: it ends before byte {}, which should be there", path, range.end);
    hash.update(piece.data(), piece.size());
  }
}

}  // namespace

std::array<std::byte, CommitRecord::bytes> encode_commit_record(const CommitRecord& record) {
  expects(std::ssize(record.extents) <= CommitRecord::most_extents);
  std::array<std::byte, CommitRecord::bytes> raw{};
  std::ranges::transform(magic, raw.begin(), [](char c) { return static_cast<std::byte>(c); });
  put(raw, at_format, CommitRecord::format);
  put(raw, at_step, record.step);
  put(raw, at_run_id, record.run_id);
  put(raw, at_branch, record.branch);
  put(raw, at_parent_step, record.parent_step);
  put(raw, at_file_size, record.file_size);
  put(raw, at_digest, record.digest);
  put(raw, at_extent_count, std::ssize(record.extents));
  for (size_t i = 0; i < record.extents.size(); ++i) {
    put(raw, at_extents + 16 * i, record.extents[i].begin);
    put(raw, at_extents + 16 * i + 8, record.extents[i].end);
  }
  put(raw, at_checksum, hash_bytes(raw.data(), at_checksum));
  return raw;
}

CommitRecord decode_commit_record(std::span<const std::byte> raw, int64_t file_size) {
  expects(std::ssize(raw) == CommitRecord::bytes);
  const std::string_view start(reinterpret_cast<const char*>(raw.data()), magic.size());
  validate(start == magic, ExitCode::damaged,
           "it has no commit record: it is cut off, was never finished, or is no checkpoint of this program");
  validate(get(raw, at_checksum) == hash_bytes(raw.data(), at_checksum), ExitCode::damaged,
           "its commit record is damaged");
  const int64_t format = get_signed(raw, at_format);
  validate(format == CommitRecord::format, ExitCode::damaged,
           "its commit record has format {}, this program reads {}: use the version that wrote it", format,
           CommitRecord::format);
  CommitRecord record{.step = get_signed(raw, at_step),
                      .run_id = get(raw, at_run_id),
                      .branch = get_signed(raw, at_branch),
                      .parent_step = get_signed(raw, at_parent_step),
                      .file_size = get_signed(raw, at_file_size),
                      .digest = get(raw, at_digest),
                      .extents = {}};
  validate(record.file_size == file_size, ExitCode::damaged, "it has {} bytes, but {} were committed",
           file_size, record.file_size);
  validate(record.step >= 0 && record.branch >= 0 && record.parent_step >= -1, ExitCode::damaged,
           "its commit record says step {}, branch {}, parent step {}", record.step, record.branch,
           record.parent_step);
  record.extents = get_extents(raw, file_size - CommitRecord::bytes);
  return record;
}

CommitRecord read_commit_record(const std::string& path) {
  const FileHandle file = open_checked(path);
  const int64_t size = file_size(file, path);
  validate(size >= CommitRecord::bytes, ExitCode::damaged, "it has {} bytes, too few for a checkpoint", size);
  std::array<std::byte, CommitRecord::bytes> raw{};
  validate(read_at(file, path, size - CommitRecord::bytes, raw) == CommitRecord::bytes, ExitCode::damaged,
           "it shrank while it was read");
  return decode_commit_record(raw, size);
}

uint64_t digest_of_rest(const std::string& path, int64_t end, const std::vector<Range>& extents) {
  const FileHandle file = open_checked(path);
  StreamHash hash;
  int64_t begin = 0;
  for (const Range& extent : extents) {
    hash_range(hash, file, path, {begin, extent.begin});
    begin = extent.end;
  }
  hash_range(hash, file, path, {begin, end});
  return hash.digest();
}

uint64_t digest_of_rest(const std::string& path, const CommitRecord& record) {
  return digest_of_rest(path, record.file_size - CommitRecord::bytes, record.extents);
}

void verify_digest(const std::string& path, const CommitRecord& record) {
  validate(digest_of_rest(path, record) == record.digest, ExitCode::damaged,
           "bytes outside the state changed since it was committed");
}

}  // namespace gpt
