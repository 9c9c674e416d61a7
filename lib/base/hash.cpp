#include "base/hash.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gpt {

uint64_t hash_bytes(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

std::string to_hex(uint64_t value) { return fmt::format("{:016x}", value); }

struct StreamHash::State {
  XXH3_state_t xxh;
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
StreamHash::~StreamHash() = default;
void StreamHash::update(const void* data, size_t bytes) { XXH3_64bits_update(&state_->xxh, data, bytes); }
uint64_t StreamHash::digest() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace gpt
