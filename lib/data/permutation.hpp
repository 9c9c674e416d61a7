#pragma once

#include <cstdint>

namespace gpt {

/// A pseudo-random order of 0 … size-1, chosen by a key, in O(1) memory: a Feistel network over Philox on the
/// smallest even number of bits that holds `size`, walked along its cycle until it falls below `size` (Black
/// & Rogaway 2002, "Ciphers with arbitrary finite domains"; four applications at most on average).
class Permutation {
public:
  Permutation(int64_t size, uint64_t key);

  /// What stands at position `index`; every value in [0, size) stands at one position.
  int64_t operator()(int64_t index) const;

private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace gpt
