#include "data/pack.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"
#include "data/corpus.hpp"
#include "data/dataset_writer.hpp"
#include "data/permutation.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <filesystem>
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

/// Passes the corpus' documents, in the seed's order, to the writer.
class Encoder {
public:
  Encoder(const Corpus& corpus, const Tokenizer& tokenizer, DatasetWriter& writer, const Progress& progress)
      : corpus_(corpus), tokenizer_(tokenizer), writer_(writer), progress_(progress) {}

  void encode(const Document& document) {
    if (!reader_ || file_ != document.file) {
      file_ = document.file;
      reader_.emplace(corpus_.files()[file_]);
    }
    reader_->seek(static_cast<int64_t>(document.begin), static_cast<int64_t>(document.end));
    uint64_t tokens = 0;
    while (!reader_->at_end()) {
      std::string_view piece = reader_->next();
      if (!reader_->at_end() && tokenizer_.kind() == "chars") {
        const size_t whole = whole_characters(piece);
        reader_->unread(piece.size() - whole);
        piece = piece.substr(0, whole);
      }
      tokens += write(piece);
    }
    validate(tokens == document.tokens, ExitCode::failed,
             "{} changed while it was read: {} tokens at first, then {}; pack it again", reader_->path(),
             document.tokens, tokens);
    if (document.unfinished != 0 && corpus_.documents() > 1) write("\n");
    writer_.end_document();
  }

private:
  size_t write(std::string_view text) {
    tokens_.clear();
    tokenizer_.encode(text, tokens_);
    writer_.append(tokens_);
    written_ += static_cast<int64_t>(tokens_.size());
    progress_("packing", written_, corpus_.tokens());
    return tokens_.size();
  }

  const Corpus& corpus_;
  const Tokenizer& tokenizer_;
  DatasetWriter& writer_;
  const Progress& progress_;
  int64_t written_ = 0;
  uint64_t file_ = 0;
  std::optional<TextReader> reader_;
  std::vector<Token> tokens_;
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
  const Permutation order(corpus.documents(), random_bits(options.seed, shuffle_stream));
  for (int64_t i = 0; i < corpus.documents(); ++i) encoder.encode(corpus.document(order(i)));
  return {.manifest = writer.finish(), .text_bytes = corpus.text_bytes()};
}

}  // namespace gpt
