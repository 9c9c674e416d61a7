#include "data/pack.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"
#include "data/corpus.hpp"
#include "data/dataset_writer.hpp"
#include "data/permutation.hpp"
#include "data/record_sorter.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

namespace gpt {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t shuffle_stream =
    0x646f6375'6d656e74;  // keeps the shuffle apart from other draws of the seed
constexpr size_t longest_separator = 4096;

/// CR LF becomes LF before separators are looked for, so in the separator too.
std::string uniform(std::string separator) {
  for (size_t at; (at = separator.find("\r\n")) != std::string::npos;) separator.erase(at, 1);
  return separator;
}

void check_out_outside(const std::vector<std::string>& inputs, const std::string& out) {
  const fs::path target = fs::weakly_canonical(fs::absolute(out));
  for (const std::string& input : inputs) {
    if (!fs::is_directory(input)) continue;
    const fs::path relative = target.lexically_relative(fs::weakly_canonical(fs::absolute(input)));
    validate(relative.empty() || *relative.begin() == "..",
             "the output folder '{}' lies inside the input folder '{}': choose another place", out, input);
  }
}

std::string describe(const std::vector<std::string>& files) {
  std::string text = fs::path(files.front()).filename().string();
  if (files.size() > 1) text += fmt::format(" and {} more files", files.size() - 1);
  return text;
}

constexpr uint64_t longest_short = 4096;  // bytes
constexpr int64_t read_ahead = int64_t{1} << 20;

/// What the sorter holds of a document. A short one's text stands behind it; a long one, which the whole
/// Document stands behind, is read from its file when its turn comes: a search on the disk, which is little
/// beside its length.
struct Entry {
  uint32_t file = 0;
  uint16_t tokens = 0;
  uint8_t unfinished = 0;
  uint8_t is_long = 0;
};
static_assert(longest_short <= std::numeric_limits<decltype(Entry::tokens)>::max());

template <class T>
void append_bytes(std::string& record, const T& value) {
  record.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T first_bytes(std::string_view record) {
  T value;
  std::memcpy(&value, record.data(), sizeof value);
  return value;
}

/// The documents of a corpus, in an order drawn from a seed. Short ones are read in the order of the files.
class ShuffledCorpus {
public:
  ShuffledCorpus(const Corpus& corpus, uint64_t key, const std::string& folder)
      : corpus_(corpus),
        sorter_(folder, corpus.documents(),
                std::min(corpus.text_bytes(), corpus.documents() * static_cast<int64_t>(longest_short)) +
                    corpus.documents() * static_cast<int64_t>(sizeof(Entry))) {
    constexpr int64_t batch = 4096;
    const InversePermutation order(Permutation(corpus.documents(), key));
    std::vector<Document> documents;
    std::vector<int64_t> places;
    for (int64_t first = 0; first < corpus.documents(); first += batch) {
      documents.resize(static_cast<size_t>(std::min(batch, corpus.documents() - first)));
      places.resize(documents.size());
      corpus.read_documents(first, documents);
      order.positions_of(first, places);
      for (size_t i = 0; i < documents.size(); ++i) put(places[i], documents[i]);
    }
    reader_.reset();
  }

  /// Each document with its text, if that is short.
  void visit(const std::function<void(const Document&, std::optional<std::string_view>)>& visitor) {
    sorter_.visit([&](std::string_view record) {
      const auto entry = first_bytes<Entry>(record);
      record.remove_prefix(sizeof entry);
      if (entry.is_long != 0)
        visitor(first_bytes<Document>(record), std::nullopt);
      else
        visitor({.file = entry.file, .tokens = entry.tokens, .unfinished = entry.unfinished}, record);
    });
  }

private:
  void put(int64_t place, const Document& document) {
    const bool is_long = document.end - document.begin > longest_short;
    record_.clear();
    append_bytes(record_, Entry{.file = static_cast<uint32_t>(document.file),
                                .tokens = static_cast<uint16_t>(is_long ? 0 : document.tokens),
                                .unfinished = static_cast<uint8_t>(document.unfinished),
                                .is_long = is_long});
    if (is_long)
      append_bytes(record_, document);
    else
      append_text(document);
    sorter_.put(place, record_);
  }

  void append_text(const Document& document) {
    if (!reader_ || file_ != document.file) {
      file_ = document.file;
      reader_.emplace(corpus_.files()[file_], read_ahead);
    }
    reader_->seek(static_cast<int64_t>(document.begin), static_cast<int64_t>(document.end));
    while (!reader_->at_end()) record_ += reader_->next();
  }

  const Corpus& corpus_;
  RecordSorter sorter_;
  uint64_t file_ = 0;
  std::optional<TextReader> reader_;
  std::string record_;
};

/// Turns documents into tokens and passes them to the writer.
class Encoder {
public:
  Encoder(const Corpus& corpus, const Tokenizer& tokenizer, DatasetWriter& writer, const Progress& progress)
      : corpus_(corpus),
        tokenizer_(tokenizer),
        in_characters_(tokenizer.kind() == "chars"),
        writer_(writer),
        progress_(progress) {}

  /// @param text  of the document; none: it is to be read
  void encode(const Document& document, std::optional<std::string_view> text) {
    tokens_.clear();
    const uint64_t tokens = text ? encode_text(*text) : encode_file(document);
    validate(tokens == document.tokens, ExitCode::failed,
             "{} changed while it was read: {} tokens at first, then {}; pack it again",
             corpus_.files()[document.file], document.tokens, tokens);
    if (document.unfinished != 0 && corpus_.documents() > 1) encode_text("\n");
    write();
    writer_.end_document();
  }

private:
  uint64_t encode_text(std::string_view text) {
    const size_t before = tokens_.size();
    tokenizer_.encode(text, tokens_);
    return tokens_.size() - before;
  }

  uint64_t encode_file(const Document& document) {
    if (!reader_ || file_ != document.file) {
      file_ = document.file;
      reader_.emplace(corpus_.files()[file_]);
    }
    reader_->seek(static_cast<int64_t>(document.begin), static_cast<int64_t>(document.end));
    uint64_t tokens = 0;
    while (!reader_->at_end()) {
      std::string_view piece = reader_->next();
      if (!reader_->at_end() && in_characters_) {
        const size_t whole = whole_characters(piece);
        reader_->unread(piece.size() - whole);
        piece = piece.substr(0, whole);
      }
      tokens += encode_text(piece);
      write();
    }
    return tokens;
  }

  void write() {
    constexpr int64_t between_reports = int64_t{1} << 16;
    writer_.append(tokens_);
    written_ += std::ssize(tokens_);
    tokens_.clear();
    if (written_ < reported_ + between_reports && written_ < corpus_.tokens()) return;
    reported_ = written_;
    progress_("packing", written_, corpus_.tokens());
  }

  const Corpus& corpus_;
  const Tokenizer& tokenizer_;
  const bool in_characters_;
  DatasetWriter& writer_;
  const Progress& progress_;
  int64_t written_ = 0, reported_ = 0;  // tokens
  uint64_t file_ = 0;
  std::optional<TextReader> reader_;
  std::vector<Token> tokens_;  // that the writer has not got yet
};

}  // namespace

PackReport pack(const PackOptions& options, const Progress& progress) {
  validate(options.tokenizer == "bytes" || options.tokenizer == "chars", "--tokenizer {}: use bytes or chars",
           options.tokenizer);
  validate(!options.inputs.empty(), "nothing to pack: name files or folders with --input");
  validate(options.separator.size() <= longest_separator,
           "--document-separator has {} bytes: at most {} are possible", options.separator.size(),
           longest_separator);
  SplitPlan::check_options(options.val_fraction, options.shards, options.val_shards);
  const bool characters = options.tokenizer == "chars";
  std::vector<std::string> repeated;
  const std::vector<std::string> files = list_text_files(options.inputs, repeated);
  if (!repeated.empty() && options.notice) {
    const size_t more = repeated.size() - 1;
    options.notice(fmt::format("{}{} named more than once: taken once only", repeated.front(),
                               more == 0 ? " is" : fmt::format(" and {} more are", more)));
  }
  check_out_outside(options.inputs, options.out);
  OutputFolder folder(options.out, options.overwrite);

  const Corpus corpus(files, uniform(options.separator), characters ? TextUnit::characters : TextUnit::bytes,
                      folder.path(), progress);
  const auto tokenizer = characters ? make_char_tokenizer(corpus.alphabet()) : make_byte_tokenizer();
  const SplitPlan plan =
      SplitPlan::by_fraction(corpus.tokens(), options.val_fraction, options.shards, options.val_shards);

  Manifest manifest;
  manifest.tokenizer = tokenizer->serialize();
  manifest.seed = options.seed;
  manifest.source = describe(files);
  DatasetWriter writer(folder, std::move(manifest), plan);
  Encoder encoder(corpus, *tokenizer, writer, progress);
  ShuffledCorpus shuffled(corpus, random_bits(options.seed, shuffle_stream), folder.path());
  shuffled.visit([&](const Document& document, std::optional<std::string_view> text) {
    encoder.encode(document, text);
  });
  return {.manifest = writer.finish(), .text_bytes = corpus.text_bytes()};
}

}  // namespace gpt
