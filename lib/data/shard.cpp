#include "data/shard.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/file_io.hpp"
#include "data/shard_format.hpp"
#include "data/stored_tokens.hpp"
#include "h5/h5.hpp"

#include <algorithm>
#include <filesystem>

namespace gpt {

struct Shard::Impl {
  std::string path;
  FileHandle file;
  int64_t offset = 0;  // of token 0, in bytes
  int64_t tokens = 0;
  int64_t token_bytes = 0;
  int64_t vocabulary = 0;
};

namespace {

template <class Value>
void match(const std::string& path, const char* what, const Value& found, const Value& promised) {
  validate(found == promised, ExitCode::damaged,
           "{}: {} is {}, the manifest promises {}; the file belongs to another dataset or is damaged", path,
           what, found, promised);
}

}  // namespace

Shard::Shard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Shard::Shard(Shard&&) noexcept = default;
Shard& Shard::operator=(Shard&&) noexcept = default;
Shard::~Shard() = default;

Shard Shard::open(const std::string& folder, const ShardInfo& info, const Manifest& manifest) {
  const std::string path = (std::filesystem::path(folder) / info.file).string();
  auto shard = std::make_unique<Impl>();
  shard->path = path;
  shard->token_bytes = manifest.token_bytes;
  shard->vocabulary = manifest.vocabulary;
  {
    const H5File file = H5File::open(path);
    match(path, "kind", file.string("kind"), std::string(shard_kind));
    match(path, "format", file.integer("format"), Manifest::format);
    match(path, "vocabulary", file.integer("vocabulary"), manifest.vocabulary);
    match(path, "tokenizer fingerprint", file.string("tokenizer_fingerprint"),
          to_hex(hash_bytes(manifest.tokenizer)));
    const H5Dataset tokens = file.open_dataset("/tokens");
    match(path, "bytes per token", size_of(tokens.element()), manifest.token_bytes);
    validate(tokens.element() == token_element(manifest.token_bytes), ExitCode::damaged,
             "{} does not hold unsigned integers", tokens.where());
    match(path, "number of tokens", tokens.size(), info.tokens);
    match(path, "checksum", file.string("checksum"), to_hex(info.checksum));
    shard->tokens = tokens.size();
    shard->offset = tokens.file_offset();
  }
  shard->file = open_regular_file(path);
  const int64_t size = file_size(shard->file, path);
  validate(shard->offset >= 0 && shard->offset <= size &&
               shard->tokens <= (size - shard->offset) / shard->token_bytes,
           ExitCode::damaged, "{} is truncated: it has {} bytes, its {} tokens end at byte {}", path, size,
           shard->tokens, shard->offset + shard->tokens * shard->token_bytes);
  return Shard(std::move(shard));
}

int64_t Shard::tokens() const { return impl_->tokens; }

void Shard::read(int64_t begin, std::span<Token> out) const {
  const Impl& shard = *impl_;
  const int64_t count = static_cast<int64_t>(out.size());
  validate(begin >= 0 && count <= shard.tokens && begin <= shard.tokens - count, ExitCode::failed,
           "{}: tokens {} to {} were asked for, the shard has {}", shard.path, begin, begin + count,
           shard.tokens);

  alignas(8) std::byte bytes[16384];
  const int64_t most = static_cast<int64_t>(sizeof bytes) / shard.token_bytes;
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(most, count - done);
    const int64_t wanted = piece * shard.token_bytes;
    const int64_t offset = shard.offset + (begin + done) * shard.token_bytes;
    const int64_t got = read_at(shard.file, shard.path, offset, {bytes, static_cast<size_t>(wanted)});
    validate(got == wanted, ExitCode::damaged,
             "{} ends at byte {}, in the middle of its tokens (token {} of {})", shard.path, offset + got,
             begin + done + got / shard.token_bytes, shard.tokens);
    const std::span<Token> to = out.subspan(static_cast<size_t>(done), static_cast<size_t>(piece));
    load_tokens(bytes, shard.token_bytes, to);
    const size_t bad = first_outside(to, shard.vocabulary);
    validate(bad == to.size(), ExitCode::damaged, "{}: token {} at offset {} is outside the vocabulary of {}",
             shard.path, bad == to.size() ? 0 : static_cast<uint32_t>(to[bad]),
             begin + done + static_cast<int64_t>(bad), shard.vocabulary);
    done += piece;
  }
}

}  // namespace gpt
