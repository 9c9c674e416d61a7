#include "data/corpus.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <type_traits>

namespace gpt {
namespace {

/// Apart from the loop over characters: it would look for the offset of each.
[[noreturn]] void refuse(char byte, const TextReader& reader, size_t piece_offset) {
  throw Error(
      fmt::format("{}: byte 0x{:02x} at offset {} is not valid UTF-8: convert the file (for example with  "
                  "iconv -f LATIN1 -t UTF-8), or pack it with --tokenizer bytes",
                  reader.path(), static_cast<unsigned char>(byte), reader.offset_of(piece_offset)),
      ExitCode::usage);
}

}  // namespace

Corpus::Corpus(std::vector<std::string> files, std::string separator, TextUnit unit,
               const std::string& folder, const Progress& progress)
    : files_(std::move(files)),
      separator_(std::move(separator)),
      unit_(unit),
      list_(folder),
      seen_(0x110000) {
  for (const std::string& path : files_) text_bytes_ += TextReader(path).file_bytes();
  int64_t bytes_before = 0;
  for (size_t file = 0; file < files_.size(); ++file) {
    TextReader reader(files_[file]);
    scan(reader, file, progress, bytes_before);
    bytes_before += reader.file_bytes();
  }
  validate(tokens_ > 0, "nothing to pack: {} {} no text", files_.front(),
           files_.size() == 1 ? "holds" : fmt::format("and {} more files hold", files_.size() - 1));
}

void Corpus::scan(TextReader& reader, uint64_t file, const Progress& progress, int64_t bytes_before) {
  current_ = {.file = file, .begin = static_cast<uint64_t>(reader.begin())};
  while (!reader.at_end()) {
    const std::string_view piece = reader.next();
    const bool last = reader.at_end();
    size_t at = 0;
    if (!separator_.empty()) {
      for (size_t found; (found = piece.find(separator_, at)) != std::string_view::npos;) {
        count(piece.substr(at, found - at), true, reader, at);
        end_document(static_cast<uint64_t>(reader.offset_of(found)));
        at = found + separator_.size();
        current_.begin = static_cast<uint64_t>(reader.offset_of(at));
      }
    }
    // What may be the beginning of a separator waits for the next piece.
    const size_t waiting = last || separator_.empty() ? 0 : separator_.size() - 1;
    const size_t until = std::max(at, piece.size() - std::min(piece.size(), waiting));
    const size_t counted = count(piece.substr(at, until - at), last, reader, at);
    progress("counting", bytes_before + reader.offset_of(at + counted), text_bytes_);
    if (!last) reader.unread(piece.size() - at - counted);
  }
  end_document(static_cast<uint64_t>(reader.file_bytes()));
}

size_t Corpus::count(std::string_view text, bool last, const TextReader& reader, size_t piece_offset) {
  size_t at = 0;
  if (unit_ == TextUnit::bytes) {
    at = text.size();
    current_.tokens += text.size();
  } else {
    uint8_t* const seen = seen_.data();
    while (at < text.size()) {
      const size_t ascii = ascii_prefix(text.substr(at));
      for (const char byte : text.substr(at, ascii)) seen[static_cast<unsigned char>(byte)] = 1;
      at += ascii;
      current_.tokens += ascii;
      if (at == text.size()) break;
      const Utf8Char next = first_utf8(text.substr(at));
      if (next.truncated && !last) break;
      if (next.length == 0) refuse(text[at], reader, piece_offset + at);
      seen[next.code] = 1;
      at += static_cast<size_t>(next.length);
      ++current_.tokens;
    }
  }
  if (at > 0) last_byte_ = text[at - 1];
  return at;
}

void Corpus::end_document(uint64_t end) {
  if (current_.tokens > 0) {
    current_.end = end;
    current_.unfinished = last_byte_ == '\n' ? 0 : 1;
    tokens_ += static_cast<int64_t>(current_.tokens);
    unfinished_ += static_cast<int64_t>(current_.unfinished);
    list_.append({reinterpret_cast<const uint64_t*>(&current_), fields});
  }
  current_.tokens = 0;
}

void Corpus::read_documents(int64_t first, std::span<Document> out) const {
  expects(first >= 0 && first + std::ssize(out) <= documents());
  static_assert(std::is_trivially_copyable_v<Document> && sizeof(Document) == fields * sizeof(uint64_t));
  list_.read(first * fields, {reinterpret_cast<uint64_t*>(out.data()), out.size() * fields});
}

std::vector<char32_t> Corpus::alphabet() const {
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < seen_.size(); ++code) {
    const bool added = code == U'\n' && documents() > 1 && unfinished_ > 0 && unit_ == TextUnit::characters;
    if (seen_[code] != 0 || added) codes.push_back(code);
  }
  return codes;
}

}  // namespace gpt
