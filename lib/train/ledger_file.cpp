#include "train/ledger_file.hpp"

#include "base/error.hpp"
#include "train/save_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

constexpr std::string_view prefix = "start-";
constexpr std::string_view suffix = ".bin";

/// Of a file's name; 0: it is none of the ledger's.
int64_t number_of(std::string_view name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return 0;
  if (name.size() <= prefix.size() + suffix.size()) return 0;
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && number > 0 ? number : 0;
}

/// The ledger's files by number.
std::vector<std::pair<int64_t, std::string>> numbered(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (const int64_t number = number_of(entry->path().filename().string()); number > 0)
      files.emplace_back(number, entry->path().string());
  validate(!error || error == std::errc::no_such_file_or_directory, ExitCode::failed, "cannot list {}: {}",
           folder, error.message());
  std::ranges::sort(files);
  return files;
}

[[noreturn]] void fail(std::string_view what, const std::string& path, int failure) {
  throw Error(fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(failure)),
              ExitCode::saving_failed);
}

/// `size` bytes from `offset` on; fewer where the file ends.
std::string read_piece(const FileHandle& file, const std::string& path, int64_t offset, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  const int64_t got = read_at(file, path, offset, std::as_writable_bytes(std::span(bytes)));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

/// The whole group that begins at `offset`; empty if there is none.
std::string group_at(const FileHandle& file, const std::string& path, int64_t offset, int64_t size) {
  const int64_t payload = payload_bytes(read_piece(file, path, offset, LedgerGroup::head_bytes));
  if (payload < 0 || payload > size - offset - LedgerGroup::head_bytes) return {};
  return read_piece(file, path, offset, LedgerGroup::head_bytes + payload);
}

/// Where the next group may begin, from `offset` on; the file's end if nothing looks like one.
int64_t find_magic(const FileHandle& file, const std::string& path, int64_t offset, int64_t size) {
  constexpr int64_t piece = int64_t{1} << 16;
  constexpr auto overlap = static_cast<int64_t>(LedgerGroup::magic.size()) - 1;
  for (int64_t begin = offset; begin < size; begin += piece) {
    const std::string bytes = read_piece(file, path, begin, std::min(piece + overlap, size - begin));
    const size_t found = bytes.find(LedgerGroup::magic);
    if (found != std::string::npos) return begin + static_cast<int64_t>(found);
  }
  return size;
}

}  // namespace

std::string ledger_folder(const std::string& run_folder) { return run_folder + "/reads"; }

LedgerFile::LedgerFile(const std::string& run_folder) {
  const std::string folder = ledger_folder(run_folder);
  make_folder(folder);
  const auto files = numbered(folder);
  for (int64_t number = files.empty() ? 1 : files.back().first + 1; !file_; ++number) {
    path_ = fmt::format("{}/{}{:06}{}", folder, prefix, number, suffix);
    file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_ && errno != EEXIST) fail("write", path_, errno);
  }
  sync_folder(folder);
  sync_folder(run_folder);
}

void LedgerFile::write(std::string_view groups) {
  write_at(file_, path_, end_, std::as_bytes(std::span(groups)));
  end_ += std::ssize(groups);
}

void LedgerFile::commit() {
  if (end_ == committed_) return;
  if (fdatasync(file_.get()) != 0) fail("bring to the disk", path_, errno);
  committed_ = end_;
}

void LedgerFile::give_up() noexcept {
  // What stays where this fails is written over, or read as bytes that are no group.
  [[maybe_unused]] const int ignored = ftruncate(file_.get(), committed_);
  end_ = committed_;
}

std::vector<std::string> list_ledger(const std::string& run_folder) {
  std::vector<std::string> paths;
  for (const auto& [number, path] : numbered(ledger_folder(run_folder))) paths.push_back(path);
  return paths;
}

std::vector<Range> read_groups(const std::string& path, const std::function<void(const LedgerGroup&)>& take) {
  const FileHandle file = open_regular_file(path);
  const int64_t size = file_size(file, path);
  std::vector<Range> others;
  LedgerGroup group;
  for (int64_t offset = 0; offset < size;) {
    const std::string bytes = group_at(file, path, offset, size);
    if (!bytes.empty() && decode_group(bytes, group)) {
      take(group);
      offset += std::ssize(bytes);
      continue;
    }
    const int64_t next = find_magic(file, path, offset + 1, size);
    if (!others.empty() && others.back().end == offset)
      others.back().end = next;
    else
      others.push_back({offset, next});
    offset = next;
  }
  return others;
}

}  // namespace gpt
