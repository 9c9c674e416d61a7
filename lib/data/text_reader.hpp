#pragma once

#include "data/file_io.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// The files that `inputs` name: files as given, folders with every regular file below them whose path has no
/// hidden part, in byte order of the paths (whatever the locale). A file that is named again, by whatever
/// path, is left out and goes to `repeated`. @throws Error(usage) if something is missing or no regular file,
/// or if a folder holds none
std::vector<std::string> list_text_files(const std::vector<std::string>& inputs,
                                         std::vector<std::string>& repeated);

/// A file's text in pieces, made uniform: without a byte order mark at the start of the file, and with LF for
/// CR LF. Everything else, NUL and a lone CR too, passes as it is.
class TextReader {
public:
  /// @param read_ahead  bytes that are read at once, at least, by who reads many small parts one behind the
  ///                    other; 0: what is asked for
  explicit TextReader(std::string path, int64_t read_ahead = 0);

  const std::string& path() const { return path_; }
  int64_t file_bytes() const { return file_bytes_; }
  int64_t begin() const { return begin_; }  ///< byte offset of the text in the file: 0, or 3 after a mark

  /// Continues at byte `begin` of the file and ends before byte `end`.
  void seek(int64_t begin, int64_t end);

  /// The next piece, about 1 MiB; empty at the end. Valid until the next call.
  std::string_view next();

  bool at_end() const { return position_ >= end_; }

  /// Where byte `index` (up to and including its size) of the last piece begins in the file.
  int64_t offset_of(size_t index) const;

  /// Gives the last `bytes` bytes of the last piece again with the next one.
  void unread(size_t bytes) { position_ = offset_of(text_bytes_ - bytes); }

private:
  void fill_buffer(int64_t bytes);
  void read(int64_t begin, std::span<char> out) const;
  void remove_carriage_returns();

  std::string path_;
  int64_t read_ahead_;
  FileHandle file_;
  int64_t file_bytes_ = 0;
  int64_t begin_ = 0;
  int64_t position_ = 0;  // byte of the file that the next piece begins with
  int64_t end_ = 0;
  std::string ahead_;  // bytes of the file from ahead_begin_ on
  int64_t ahead_begin_ = 0;
  std::string buffer_;
  size_t text_bytes_ = 0;       // of buffer_
  int64_t piece_begin_ = 0;     // byte of the file that the last piece began with
  std::vector<size_t> joined_;  // where the last piece has an LF that was CR LF in the file
};

/// All of a file's text, made uniform as a TextReader does. @throws Error(usage) for what is no regular file,
/// and if the file has more than `limit` bytes
std::string read_text(const std::string& path, int64_t limit);

}  // namespace gpt
