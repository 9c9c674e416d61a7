#include "data/text_reader.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <unordered_set>

namespace gpt {
namespace fs = std::filesystem;
namespace {

constexpr int64_t piece_bytes = 1 << 20;
constexpr std::array<unsigned char, 3> byte_order_mark{0xEF, 0xBB, 0xBF};

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

void list_folder(const fs::path& folder, std::vector<std::string>& files) {
  const size_t before = files.size();
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (hidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) files.push_back(entry->path().string());
  }
  validate(!error, "cannot list the folder '{}': {}", folder.string(), error.message());
  validate(files.size() > before, "the folder '{}' holds no files", folder.string());
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
}

}  // namespace

std::vector<std::string> list_text_files(const std::vector<std::string>& inputs,
                                         std::vector<std::string>& repeated) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    validate(fs::exists(input, ignored), "there is no file or folder '{}'", input);
    if (fs::is_directory(input, ignored)) {
      list_folder(input, files);
    } else {
      files.push_back(input);
    }
  }
  std::unordered_set<std::string> known;
  std::vector<std::string> once;
  for (std::string& file : files) {
    std::error_code error;
    const std::string real = fs::canonical(file, error).string();
    validate(!error, "cannot read {}: {}", file, error.message());
    (known.insert(real).second ? once : repeated).push_back(std::move(file));
  }
  return once;
}

TextReader::TextReader(std::string path, int64_t read_ahead)
    : path_(std::move(path)), read_ahead_(read_ahead), file_(open_regular_file(path_)) {
  file_bytes_ = file_size(file_, path_);
  std::array<std::byte, 3> first{};
  const int64_t got = read_at(file_, path_, 0, first);
  if (got == 3 && std::memcmp(first.data(), byte_order_mark.data(), first.size()) == 0) begin_ = 3;
  seek(begin_, file_bytes_);
}

void TextReader::seek(int64_t begin, int64_t end) {
  position_ = begin;
  end_ = end;
}

std::string_view TextReader::next() {
  fill_buffer(std::clamp(end_ - position_, int64_t{0}, piece_bytes));
  piece_begin_ = position_;
  position_ += std::ssize(buffer_);
  if (!at_end() && buffer_.back() == '\r') {  // whether an LF follows is known only with the next piece
    buffer_.pop_back();
    --position_;
  }
  remove_carriage_returns();
  return {buffer_.data(), text_bytes_};
}

void TextReader::fill_buffer(int64_t bytes) {
  if (bytes >= read_ahead_) {
    buffer_.resize(static_cast<size_t>(bytes));
    read(position_, buffer_);
    return;
  }
  if (position_ < ahead_begin_ || position_ + bytes > ahead_begin_ + std::ssize(ahead_)) {
    ahead_.resize(static_cast<size_t>(std::min(read_ahead_, std::max(bytes, file_bytes_ - position_))));
    ahead_begin_ = position_;
    read(position_, ahead_);
  }
  buffer_.assign(ahead_, static_cast<size_t>(position_ - ahead_begin_), static_cast<size_t>(bytes));
}

void TextReader::read(int64_t begin, std::span<char> out) const {
  const int64_t got = read_at(file_, path_, begin, std::as_writable_bytes(out));
  validate(got == std::ssize(out), ExitCode::failed, "{} became shorter while it was read: byte {} is gone",
           path_, begin + got);
}

void TextReader::remove_carriage_returns() {
  joined_.clear();
  size_t to = 0;
  for (size_t from = 0; from < buffer_.size();) {
    const size_t found = std::min(buffer_.find('\r', from), buffer_.size());
    if (to != from) std::memmove(buffer_.data() + to, buffer_.data() + from, found - from);
    to += found - from;
    from = found;
    if (from == buffer_.size()) break;
    if (from + 1 < buffer_.size() && buffer_[from + 1] == '\n') {
      joined_.push_back(to);
      ++from;
    }
    buffer_[to++] = buffer_[from++];
  }
  text_bytes_ = to;
}

int64_t TextReader::offset_of(size_t index) const {
  expects(index <= text_bytes_);
  const auto before = std::lower_bound(joined_.begin(), joined_.end(), index) - joined_.begin();
  return piece_begin_ + static_cast<int64_t>(index) + before;
}

std::string read_text(const std::string& path, int64_t limit) {
  TextReader reader(path);
  validate(reader.file_bytes() <= limit, "{} has {} bytes: at most {} are expected here", path,
           reader.file_bytes(), limit);
  std::string text;
  while (!reader.at_end()) text += reader.next();
  return text;
}

}  // namespace gpt
