#pragma once

#include "device/tensor.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// Contents of messages whose sums are known and exact: small whole numbers, so that neither the order of
/// the additions nor a bf16 hop changes a sum, with a period that is prime, so that a piece that arrives in a
/// wrong place shows.
class KnownSums {
public:
  KnownSums(int rank, int ranks);

  /// This rank's contribution. f32, bf16 or f64, in host memory
  void fill(Tensor data) const { write(data, mine_); }
  /// What a root or an owner gives away.
  void fill_with_sums(Tensor data) const { write(data, sums_); }
  /// No number at all: what nobody must read, or what must be overwritten.
  static void spoil(Tensor data);

  /// Elements of `piece`, which begins at element `first` of the message, that are not the sum.
  int64_t wrong(Tensor piece, int64_t first) const;

private:
  static void write(Tensor data, const std::vector<float>& values);

  std::vector<float> mine_;  // one period
  std::vector<float> sums_;
};

}  // namespace gpt
