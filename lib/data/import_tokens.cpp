#include "data/import_tokens.hpp"

#include "base/error.hpp"
#include "data/dataset_writer.hpp"
#include "data/pickle.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

namespace gpt {
namespace fs = std::filesystem;
namespace {

constexpr int64_t gpt2_vocabulary = 50257;
constexpr int64_t ids_in_16_bits = 65536;
constexpr int64_t longest_alphabet = 1 << 20;
constexpr int64_t longest_meta = int64_t{16} << 20;

/// A folder's files as options; other options stay as they are.
ImportOptions look_into_folder(ImportOptions options) {
  const bool folder = std::any_of(options.inputs.begin(), options.inputs.end(),
                                  [](const std::string& input) { return fs::is_directory(input); });
  if (!folder) return options;
  validate(options.inputs.size() == 1 && options.val_inputs.empty(),
           "--input takes either files or one folder, and a folder has its own validation files");
  const fs::path path = options.inputs.front();
  options.inputs.clear();
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() != ".bin") continue;
    const bool val = entry.path().filename().string().find("val") != std::string::npos;
    (val ? options.val_inputs : options.inputs).push_back(entry.path().string());
  }
  std::sort(options.inputs.begin(), options.inputs.end());
  std::sort(options.val_inputs.begin(), options.val_inputs.end());
  validate(!options.inputs.empty(), "the folder '{}' holds no .bin file to train on", path.string());
  const bool given = !options.meta.empty() || !options.alphabet.empty() || options.vocabulary > 0;
  if (!given && fs::exists(path / "meta.pkl")) options.meta = (path / "meta.pkl").string();
  return options;
}

/// A tokenizer and what its ids are called in the files.
struct Vocabulary {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<Token> renumbered;  // by id in the files
};

Vocabulary of_characters(const std::vector<char32_t>& codes, const std::string& source) {
  Vocabulary vocabulary{make_char_tokenizer(codes), {}};
  validate(vocabulary.tokenizer->vocabulary() == static_cast<int64_t>(codes.size()),
           "{}: a character stands for two ids: give the size with --vocab instead", source);
  for (const char32_t code : codes) {
    std::string text;
    append_utf8(text, code);
    vocabulary.tokenizer->encode(text, vocabulary.renumbered);
  }
  return vocabulary;
}

std::vector<char32_t> read_characters(std::string_view text, const std::string& source) {
  std::vector<char32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = first_utf8(text.substr(at));
    validate(next.length > 0, "{} is not valid UTF-8 at byte {}", source, at);
    codes.push_back(next.code);
    at += static_cast<size_t>(next.length);
  }
  return codes;
}

Vocabulary of_ids(int64_t size) {
  validate(size >= 1 && size <= ids_in_16_bits, "--vocab {}: files of 16-bit tokens can hold 1 to {}", size,
           ids_in_16_bits);
  Vocabulary vocabulary{make_id_tokenizer(size), {}};
  for (int64_t id = 0; id < size; ++id) vocabulary.renumbered.push_back(static_cast<Token>(id));
  return vocabulary;
}

Vocabulary of_meta(const std::string& path) {
  const PickledMeta meta = read_pickled_meta(read_small_file(path, longest_meta), path);
  if (meta.texts.empty()) return of_ids(meta.vocabulary);
  validate(static_cast<int64_t>(meta.texts.size()) == meta.vocabulary && meta.texts.begin()->first == 0 &&
               meta.texts.rbegin()->first == meta.vocabulary - 1,
           "{}: 'itos' has {} entries for a vocabulary of {}", path, meta.texts.size(), meta.vocabulary);
  std::vector<char32_t> codes;
  for (const auto& [id, text] : meta.texts) {
    const std::vector<char32_t> characters = read_characters(text, path);
    validate(characters.size() == 1,
             "{}: the text of id {} has {} characters: only one each can be imported; give "
             "the size with --vocab instead",
             path, id, characters.size());
    codes.push_back(characters.front());
  }
  return of_characters(codes, path);
}

Vocabulary find_vocabulary(const ImportOptions& options) {
  const int given = !options.meta.empty() + !options.alphabet.empty() + (options.vocabulary != 0);
  validate(given <= 1, "--meta, --alphabet and --vocab exclude each other: give one");
  if (!options.meta.empty()) return of_meta(options.meta);
  if (!options.alphabet.empty()) {
    const std::string text = read_small_file(options.alphabet, longest_alphabet);
    return of_characters(read_characters(text, options.alphabet), options.alphabet);
  }
  return of_ids(options.vocabulary == 0 ? gpt2_vocabulary : options.vocabulary);
}

std::vector<TokenFile> open_all(const std::vector<std::string>& paths, TokenFormat format) {
  std::vector<TokenFile> files;
  for (const std::string& path : paths) files.emplace_back(path, format);
  return files;
}

int64_t count(const std::vector<TokenFile>& files) {
  int64_t tokens = 0;
  for (const TokenFile& file : files) tokens += file.tokens();
  return tokens;
}

/// Renumbers `tokens`, which begin at token `begin` of `file`.
void renumber(std::span<Token> tokens, const Vocabulary& vocabulary, const TokenFile& file, int64_t begin) {
  const auto size = static_cast<int64_t>(vocabulary.renumbered.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    validate(tokens[i] < size, ExitCode::damaged,
             "{}: token {} at offset {} is outside the vocabulary of {}: give its real size with --vocab",
             file.path(), tokens[i], begin + static_cast<int64_t>(i), size);
    tokens[i] = vocabulary.renumbered[static_cast<size_t>(tokens[i])];
  }
}

}  // namespace

Manifest import_tokens(const ImportOptions& given, const Progress& progress) {
  validate(!given.inputs.empty(), "nothing to import: name token files or a folder with --input");
  const ImportOptions options = look_into_folder(given);
  const Vocabulary vocabulary = find_vocabulary(options);
  std::vector<TokenFile> files = open_all(options.inputs, options.format);
  std::vector<TokenFile> val_files = open_all(options.val_inputs, options.format);
  const SplitPlan plan =
      val_files.empty()
          ? SplitPlan::by_fraction(count(files), options.val_fraction, options.shards, options.val_shards)
          : SplitPlan{count(files), options.shards, count(val_files), options.val_shards};
  plan.check();

  Manifest manifest;
  manifest.tokenizer = vocabulary.tokenizer->serialize();
  manifest.source = fmt::format("{} of {}", fs::path(options.inputs.front()).filename().string(),
                                files.front().format() == TokenFormat::llmc ? "llm.c" : "nanoGPT");
  OutputFolder folder(options.out, options.overwrite);
  DatasetWriter writer(folder, std::move(manifest), plan);
  std::move(val_files.begin(), val_files.end(), std::back_inserter(files));
  std::vector<Token> tokens;
  int64_t done = 0;
  for (const TokenFile& file : files) {
    for (int64_t at = 0; at < file.tokens(); at += static_cast<int64_t>(tokens.size())) {
      tokens.resize(static_cast<size_t>(std::min<int64_t>(file.tokens() - at, 1 << 18)));
      file.read(at, tokens);
      renumber(tokens, vocabulary, file, at);
      writer.append(tokens);
      done += static_cast<int64_t>(tokens.size());
      progress("importing", done, plan.train_tokens + plan.val_tokens);
    }
    writer.end_document();
  }
  return writer.finish();
}

}  // namespace gpt
