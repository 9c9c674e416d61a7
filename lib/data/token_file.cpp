#include "data/token_file.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace gpt {
namespace {

constexpr int32_t magic = 20240520;
constexpr int64_t header_words = 256;
constexpr int64_t header_bytes = header_words * int64_t{sizeof(int32_t)};

}  // namespace

TokenFile::TokenFile(std::string path, TokenFormat format)
    : path_(std::move(path)), file_(open_regular_file(path_)), format_(format) {
  const int64_t bytes = file_size(file_, path_);
  if (format_ == TokenFormat::automatic) {
    int32_t first = 0;
    const int64_t got = read_at(file_, path_, 0, std::as_writable_bytes(std::span(&first, 1)));
    format_ = got == int64_t{sizeof first} && first == magic ? TokenFormat::llmc : TokenFormat::nanogpt;
  }
  if (format_ == TokenFormat::llmc) read_header(bytes);
  validate((bytes - first_byte_) % 2 == 0, "{} has {} bytes: that is no whole number of 16-bit tokens", path_,
           bytes);
  if (format_ == TokenFormat::nanogpt) tokens_ = bytes / 2;
  validate(tokens_ >= 1, "{} holds no tokens", path_);
}

void TokenFile::read_header(int64_t bytes) {
  std::array<int32_t, header_words> header{};
  validate(bytes >= header_bytes, "{} has {} bytes: llm.c's header alone has {}", path_, bytes, header_bytes);
  read_at(file_, path_, 0, std::as_writable_bytes(std::span(header)));
  validate(header[0] == magic,
           "{} begins with {}, llm.c's token files with {}: is it nanoGPT's (--format nanogpt)?", path_,
           header[0], magic);
  validate(header[1] == 1,
           "{} has version {} of llm.c's token files: version 1 (16-bit tokens) can be imported", path_,
           header[1]);
  first_byte_ = header_bytes;
  tokens_ = header[2];
  validate(tokens_ >= 1 && (bytes - first_byte_) / 2 == tokens_,
           "{} promises {} tokens and has room for {}: it is cut off or damaged", path_, tokens_,
           (bytes - first_byte_) / 2);
}

void TokenFile::read(int64_t begin, std::span<Token> out) const {
  std::vector<uint16_t> stored(out.size());
  const auto bytes = std::as_writable_bytes(std::span(stored));
  const int64_t got = read_at(file_, path_, first_byte_ + begin * 2, bytes);
  validate(got == static_cast<int64_t>(bytes.size()), ExitCode::failed, "{} became shorter while it was read",
           path_);
  std::copy(stored.begin(), stored.end(), out.begin());
}

}  // namespace gpt
