#include "data/verify.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/integers.hpp"
#include "data/dataset.hpp"
#include "data/shard_documents.hpp"
#include "data/shard_format.hpp"
#include "data/stored_tokens.hpp"
#include "h5/h5.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>

namespace gpt {
namespace {

struct BadToken {
  int64_t offset = 0;
  uint32_t value = 0;
};

/// The first token outside the vocabulary; offsets count from the first of `bytes`.
std::optional<BadToken> find_bad_token(std::span<const std::byte> bytes, int64_t token_bytes,
                                       int64_t vocabulary) {
  std::array<Token, 4096> buffer;  // stays in the nearest cache
  const size_t count = bytes.size() / static_cast<size_t>(token_bytes);
  for (size_t begin = 0; begin < count; begin += buffer.size()) {
    const auto tokens = std::span(buffer).first(std::min(buffer.size(), count - begin));
    load_tokens(bytes.subspan(begin * static_cast<size_t>(token_bytes)), token_bytes, tokens);
    const size_t bad = first_outside(tokens, vocabulary);
    if (bad < tokens.size())
      return BadToken{static_cast<int64_t>(begin + bad), static_cast<uint32_t>(tokens[bad])};
  }
  return std::nullopt;
}

class Verifier {
public:
  Verifier(const Dataset& dataset, const Progress& progress) : dataset_(dataset), progress_(progress) {
    for (const Split split : {Split::train, Split::val}) {
      for (const ShardInfo& info : manifest().shards(split)) tokens_in_all_ += info.tokens;
    }
  }

  VerifyReport run() {
    for (const Split split : {Split::train, Split::val}) {
      for (const ShardInfo& info : manifest().shards(split)) {
        try {
          Shard::open(dataset_.folder(), info, manifest());
          check_description(info, split);
          ShardDocuments(dataset_.folder(), info).for_each([](Range) {});
          check_tokens(info);
        } catch (const Error& error) {
          report_.problems.push_back(error.what());
        }
        ++report_.shards;
        report_.tokens += info.tokens;
      }
      check_balance(split);
    }
    return std::move(report_);
  }

private:
  const Manifest& manifest() const { return dataset_.manifest(); }

  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    report_.problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  H5File open(const ShardInfo& info) const {
    return H5File::open((std::filesystem::path(dataset_.folder()) / info.file).string());
  }

  void check_description(const ShardInfo& info, Split split) {
    const H5File file = open(info);
    if (file.string("file") != info.file) problem("{} was written as '{}'", file.path(), file.string("file"));
    if (file.string("split") != name_of(split))
      problem("{} has the split '{}'", file.path(), file.string("split"));
    if (file.integer("token_bytes") != manifest().token_bytes) {
      problem("{} says {} bytes per token, the manifest {}", file.path(), file.integer("token_bytes"),
              manifest().token_bytes);
    }
    if (const int64_t open_flag = file.integer("last_document_open"); open_flag != 0 && open_flag != 1) {
      problem("{} has last_document_open {}, not 0 or 1", file.path(), open_flag);
    }
    if (file.integer("checksum_block_bytes") != checksum_block_bytes) {
      problem("{} has checksums of {} bytes each, not {}", file.path(), file.integer("checksum_block_bytes"),
              checksum_block_bytes);
    }
  }

  void check_tokens(const ShardInfo& info) {
    const H5File file = open(info);
    const H5Dataset tokens = file.open_dataset("/tokens");
    const H5Dataset checksums = file.open_dataset("/checksums");
    const int64_t width = manifest().token_bytes;
    const int64_t per_block = checksum_block_bytes / width;
    const int64_t blocks = ceil_div(tokens.size(), per_block);
    validate(checksums.size() == blocks, ExitCode::damaged, "{} has {} entries for {} blocks",
             checksums.where(), checksums.size(), blocks);

    StreamHash whole;
    std::vector<std::byte> bytes;
    std::optional<BadToken> bad;
    for (int64_t block = 0; block < blocks; ++block) {
      const Range range{block * per_block, std::min((block + 1) * per_block, tokens.size())};
      bytes.resize(static_cast<size_t>(range.size() * width));
      tokens.read(range, token_element(width), bytes.data());
      whole.update(bytes.data(), bytes.size());
      uint64_t expected = 0;
      checksums.read({block, block + 1}, H5Element::u64, &expected);
      if (const uint64_t found = hash_bytes(bytes.data(), bytes.size()); found != expected) {
        problem("{}: tokens {} to {} have the checksum {}, written was {}", file.path(), range.begin,
                range.end - 1, to_hex(found), to_hex(expected));
      }
      if (!bad) {
        bad = find_bad_token(bytes, width, manifest().vocabulary);
        if (bad) bad->offset += range.begin;
      }
      done_ += range.size();
      progress_("verifying", done_, tokens_in_all_);
    }
    if (bad) {
      problem("{}: token {} at offset {} is outside the vocabulary of {}", file.path(), bad->value,
              bad->offset, manifest().vocabulary);
    }
    if (whole.digest() != info.checksum) {
      problem("{}: all tokens together have the checksum {}, the manifest says {}", file.path(),
              to_hex(whole.digest()), to_hex(info.checksum));
    }
  }

  void check_balance(Split split) {
    const auto& shards = manifest().shards(split);
    if (shards.empty()) return;
    const auto [least, most] =
        std::minmax_element(shards.begin(), shards.end(),
                            [](const ShardInfo& a, const ShardInfo& b) { return a.tokens < b.tokens; });
    if (most->tokens - least->tokens > 1) {
      problem(
          "{} has {} tokens and {} has {}: shards of a split may differ by one; gpt_data reshard balances "
          "them",
          least->file, least->tokens, most->file, most->tokens);
    }
  }

  const Dataset& dataset_;
  const Progress& progress_;
  VerifyReport report_;
  int64_t tokens_in_all_ = 0;
  int64_t done_ = 0;
};

}  // namespace

VerifyReport verify(const std::string& folder, const Progress& progress) {
  const Dataset dataset(folder);
  return Verifier(dataset, progress).run();
}

}  // namespace gpt
