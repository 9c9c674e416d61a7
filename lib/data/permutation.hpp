#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  friend class InversePermutation;

  uint64_t encrypt(uint64_t value) const;
  uint64_t round_bits(uint64_t right, int round) const;
  uint64_t half_mask() const { return (uint64_t{1} << half_bits_) - 1; }

  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

/// Where the values of a permutation stand, for many of them: keeps what the network's rounds make of each
/// half of a value, in memory that grows with the root of the permutation's size (2 MiB for 2^32 values).
class InversePermutation {
public:
  explicit InversePermutation(const Permutation& order);

  /// The positions of the values from `first` on.
  void positions_of(int64_t first, std::span<int64_t> positions) const;

private:
  uint64_t decrypt(uint64_t value) const;

  Permutation order_;
  std::vector<uint32_t> bits_;  // (round, half of a value); empty for sizes beyond 2^32
};

}  // namespace gpt
