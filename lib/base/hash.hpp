#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gpt {

/// XXH3-64 of the bytes.
uint64_t hash_bytes(const void* data, size_t bytes);
inline uint64_t hash_bytes(std::string_view text) { return hash_bytes(text.data(), text.size()); }

/// 16 lower-case hexadecimal digits.
std::string to_hex(uint64_t value);

/// XXH3-64 over pieces that come one after the other.
class StreamHash {
public:
  StreamHash();
  ~StreamHash();
  void update(const void* data, size_t bytes);
  uint64_t digest() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt
