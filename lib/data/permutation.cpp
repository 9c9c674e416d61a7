#include "data/permutation.hpp"

#include "base/contracts.hpp"
#include "base/philox.hpp"

#include <bit>
#include <utility>

namespace gpt {
namespace {

constexpr int rounds = 8;  // four suffice on wide halves; the halves of a small domain are a few bits

}  // namespace

Permutation::Permutation(int64_t size, uint64_t key) : size_(static_cast<uint64_t>(size)), key_(key) {
  expects(size >= 1);
  half_bits_ = (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2;
}

int64_t Permutation::operator()(int64_t index) const {
  auto value = static_cast<uint64_t>(index);
  expects(value < size_);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

uint64_t Permutation::encrypt(uint64_t value) const {
  uint64_t left = value >> half_bits_;
  uint64_t right = value & half_mask();
  for (int round = 0; round < rounds; ++round) {
    left ^= round_bits(right, round);
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::round_bits(uint64_t right, int round) const {
  return random_bits(key_, right, static_cast<uint64_t>(round)) & half_mask();
}

InversePermutation::InversePermutation(const Permutation& order) : order_(order) {
  constexpr int most_half_bits = 16;
  if (order_.half_bits_ > most_half_bits) return;
  for (int round = 0; round < rounds; ++round)
    for (uint64_t half = 0; half <= order_.half_mask(); ++half)
      bits_.push_back(static_cast<uint32_t>(order_.round_bits(half, round)));
}

void InversePermutation::positions_of(int64_t first, std::span<int64_t> positions) const {
  expects(first >= 0 && first + std::ssize(positions) <= static_cast<int64_t>(order_.size_));
  auto value = static_cast<uint64_t>(first);
  for (int64_t& position : positions) {
    uint64_t walking = value++;
    do {
      walking = decrypt(walking);  // outside of the domain it walks on, as it did on its way here
    } while (walking >= order_.size_);
    position = static_cast<int64_t>(walking);
  }
}

uint64_t InversePermutation::decrypt(uint64_t value) const {
  const int half_bits = order_.half_bits_;
  uint64_t left = value >> half_bits;
  uint64_t right = value & order_.half_mask();
  for (int round = rounds - 1; round >= 0; --round) {
    std::swap(left, right);
    left ^= bits_.empty() ? order_.round_bits(right, round)
                          : bits_[static_cast<size_t>(round) << half_bits | right];
  }
  return left << half_bits | right;
}

}  // namespace gpt
