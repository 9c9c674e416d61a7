#pragma once

#include "data/progress.hpp"
#include "data/spool.hpp"
#include "data/text_reader.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// A document: bytes [begin, end) of a file.
struct Document {
  uint64_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t tokens = 0;
  uint64_t unfinished = 0;  ///< 1 if its last line has no LF
};

/// How text becomes tokens as far as counting goes.
enum class TextUnit { bytes, characters };

/// The documents of some text files, found and counted in one pass. Its memory does not grow with the number
/// or the size of documents: the list lies in a nameless file.
class Corpus {
public:
  /// @param separator  text between documents, part of none; if empty, every file is one document
  /// @param folder     where the list's file lies
  /// @throws Error(usage) for text that is not UTF-8, with file, offset and what to do, where characters
  /// count
  Corpus(std::vector<std::string> files, std::string separator, TextUnit unit, const std::string& folder,
         const Progress& progress);

  const std::vector<std::string>& files() const { return files_; }
  int64_t documents() const { return list_.size() / fields; }
  /// The documents from `first` on, in the order of the files and of their places in them.
  void read_documents(int64_t first, std::span<Document> out) const;

  int64_t text_bytes() const { return text_bytes_; }  ///< of all files

  /// Tokens of all documents, with the LF that packing adds to unfinished ones if there are several
  /// documents, so that no two run into each other.
  int64_t tokens() const { return tokens_ + (documents() > 1 ? unfinished_ : 0); }

  /// Every character that tokens() counts, in code-point order; empty when bytes count.
  std::vector<char32_t> alphabet() const;

private:
  static constexpr int64_t fields = sizeof(Document) / sizeof(uint64_t);

  void scan(TextReader& reader, uint64_t file, const Progress& progress, int64_t bytes_before);
  size_t count(std::string_view text, bool last, const TextReader& reader, size_t piece_offset);
  void end_document(uint64_t end);

  std::vector<std::string> files_;
  std::string separator_;
  TextUnit unit_;
  Spool list_;
  Document current_;
  std::vector<uint8_t> seen_;  // by code point: 1 if it occurs
  int64_t text_bytes_ = 0;
  int64_t tokens_ = 0;
  int64_t unfinished_ = 0;
  char last_byte_ = 0;
};

}  // namespace gpt
