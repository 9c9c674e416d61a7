#include "data/shard_writer.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/hash.hpp"
#include "data/file_io.hpp"
#include "data/shard_format.hpp"
#include "data/spool.hpp"
#include "data/stored_tokens.hpp"
#include "h5/h5.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

namespace gpt {

struct ShardWriter::Impl {
  std::string path;
  std::string partial;
  Split split;
  std::string tokenizer_fingerprint;
  int64_t vocabulary;
  int64_t token_bytes;
  int64_t promised;
  H5File file;
  H5Dataset tokens;
  Spool documents;
  std::vector<std::byte> block;
  std::vector<uint64_t> checksums;
  StreamHash whole;
  int64_t appended = 0;
  int64_t written = 0;
  bool between_documents = true;
  bool published = false;

  ~Impl() {
    if (!published) std::remove(partial.c_str());
  }

  int64_t tokens_per_block() const { return checksum_block_bytes / token_bytes; }

  void write_block() {
    const int64_t count = static_cast<int64_t>(block.size()) / token_bytes;
    checksums.push_back(hash_bytes(block.data(), block.size()));
    whole.update(block.data(), block.size());
    tokens.write({written, written + count}, token_element(token_bytes), block.data(),
                 file_point("shard.write"));
    written += count;
    block.clear();
  }

  void write_documents() {
    H5Dataset dataset = file.create_dataset("/documents", H5Element::u64, documents.size());
    std::vector<uint64_t> piece;
    for (int64_t at = 0; at < documents.size(); at += static_cast<int64_t>(piece.size())) {
      piece.resize(static_cast<size_t>(std::min<int64_t>(documents.size() - at, 1 << 16)));
      documents.read(at, piece);
      dataset.write({at, at + static_cast<int64_t>(piece.size())}, H5Element::u64, piece.data());
    }
  }
};

ShardWriter::ShardWriter(const std::string& folder, const std::string& file, const Manifest& manifest,
                         Split split, int64_t tokens) {
  expects(tokens >= 1 && tokens <= most_shard_tokens);
  const std::string path = (std::filesystem::path(folder) / file).string();
  const std::string partial = path + ".partial";
  H5File h5 = H5File::create(partial);
  H5Dataset dataset = h5.create_dataset("/tokens", token_element(manifest.token_bytes), tokens);
  impl_.reset(new Impl{.path = path,
                       .partial = partial,
                       .split = split,
                       .tokenizer_fingerprint = to_hex(hash_bytes(manifest.tokenizer)),
                       .vocabulary = manifest.vocabulary,
                       .token_bytes = manifest.token_bytes,
                       .promised = tokens,
                       .file = std::move(h5),
                       .tokens = std::move(dataset),
                       .documents = Spool(folder),
                       .block = {},
                       .checksums = {},
                       .whole = {}});
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::append(std::span<const Token> tokens) {
  Impl& shard = *impl_;
  if (tokens.empty()) return;
  const size_t bad = first_outside(tokens, shard.vocabulary);
  validate(bad == tokens.size(), ExitCode::damaged,
           "{}: token {} at offset {} is outside the vocabulary of {}", shard.path,
           bad == tokens.size() ? 0 : tokens[bad], shard.appended + static_cast<int64_t>(bad),
           shard.vocabulary);
  validate(static_cast<int64_t>(tokens.size()) <= shard.promised - shard.appended, ExitCode::failed,
           "{}: more than the {} tokens that were announced", shard.path, shard.promised);
  if (std::exchange(shard.between_documents, false)) {
    const auto start = static_cast<uint64_t>(shard.appended);
    shard.documents.append({&start, 1});
  }
  shard.appended += static_cast<int64_t>(tokens.size());

  while (!tokens.empty()) {
    const int64_t room =
        shard.tokens_per_block() - static_cast<int64_t>(shard.block.size()) / shard.token_bytes;
    const auto piece = tokens.first(std::min(tokens.size(), static_cast<size_t>(room)));
    store_tokens(piece, shard.token_bytes, shard.block);
    if (static_cast<int64_t>(shard.block.size()) == checksum_block_bytes) shard.write_block();
    tokens = tokens.subspan(piece.size());
  }
}

void ShardWriter::end_document() { impl_->between_documents = true; }

ShardInfo ShardWriter::finish() {
  Impl& shard = *impl_;
  validate(shard.appended == shard.promised, ExitCode::failed, "{}: {} tokens came where {} were announced",
           shard.path, shard.appended, shard.promised);
  if (!shard.block.empty()) shard.write_block();
  shard.write_documents();
  const int64_t blocks = static_cast<int64_t>(shard.checksums.size());
  shard.file.create_dataset("/checksums", H5Element::u64, blocks)
      .write({0, blocks}, H5Element::u64, shard.checksums.data());

  const ShardInfo info{.file = std::filesystem::path(shard.path).filename().string(),
                       .tokens = shard.promised,
                       .documents = shard.documents.size(),
                       .checksum = shard.whole.digest()};
  H5File& file = shard.file;
  file.set_attribute("kind", std::string(shard_kind));
  file.set_attribute("format", Manifest::format);
  file.set_attribute("file", info.file);
  file.set_attribute("split", std::string(name_of(shard.split)));
  file.set_attribute("vocabulary", shard.vocabulary);
  file.set_attribute("token_bytes", shard.token_bytes);
  file.set_attribute("tokenizer_fingerprint", shard.tokenizer_fingerprint);
  file.set_attribute("last_document_open", int64_t{shard.between_documents ? 0 : 1});
  file.set_attribute("checksum", to_hex(info.checksum));
  file.set_attribute("checksum_algorithm", std::string("XXH3-64"));
  file.set_attribute("checksum_block_bytes", checksum_block_bytes);
  { const H5Dataset closed = std::move(shard.tokens); }  // an open dataset would keep the file open
  file.close();
  rename_file(shard.partial, shard.path);
  shard.published = true;
  return info;
}

}  // namespace gpt
