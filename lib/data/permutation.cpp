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
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (int round = 0; round < rounds; ++round) {
    left ^= random_bits(key_, right, static_cast<uint64_t>(round)) & mask;
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

}  // namespace gpt
