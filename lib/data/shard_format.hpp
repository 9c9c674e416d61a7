#pragma once

#include "data/manifest.hpp"
#include "h5/h5.hpp"

#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <string>

namespace gpt {

// What both sides of the shard format agree on; docs/data-format.md describes it for others.
static_assert(std::endian::native == std::endian::little, "token bytes are stored and read as little endian");

constexpr const char* shard_kind = "gpt_mpi shard";
constexpr const char* manifest_kind = "gpt_mpi dataset";
constexpr const char* manifest_file = "dataset.h5";

constexpr int64_t checksum_block_bytes = int64_t{4} << 20;
constexpr int64_t most_shards = 99'999;                   // the file name has five digits
constexpr int64_t most_shard_tokens = int64_t{1} << 46;   // sums over all shards stay far from overflow
constexpr int64_t largest_vocabulary = int64_t{1} << 31;  // Token is a signed 32-bit number
constexpr int64_t longest_tokenizer = int64_t{64} << 20;

/// The narrowest of 1, 2, 4 bytes that holds every token of the vocabulary.
constexpr int64_t token_bytes_for(int64_t vocabulary) {
  return vocabulary <= 0x100 ? 1 : vocabulary <= 0x10000 ? 2 : 4;
}

constexpr H5Element token_element(int64_t token_bytes) {
  return token_bytes == 1 ? H5Element::u8 : token_bytes == 2 ? H5Element::u16 : H5Element::u32;
}

/// "train-00003-of-00032.h5"
inline std::string shard_file(Split split, int64_t index, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.h5", name_of(split), index, count);
}

}  // namespace gpt
