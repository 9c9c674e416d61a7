#include "bench/known_sums.hpp"

#include "base/error.hpp"
#include "base/philox.hpp"

#include <algorithm>
#include <limits>

namespace gpt {
namespace {

constexpr int64_t period = 8191;
// bf16 holds every whole number up to here.
constexpr int largest_sum = 256;

/// What `rank` contributes to element `i`. Of more ranks than a bf16 sum can hold, only some contribute.
float contribution(int64_t i, int rank, int ranks) {
  const int contributors = std::min(ranks, largest_sum);
  if ((i + rank) % ranks >= contributors) return 0.0F;
  const int amplitude = std::clamp(largest_sum / contributors, 1, 8);
  const uint64_t bits = random_bits(static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(i));
  return static_cast<float>(static_cast<int>(bits % static_cast<uint64_t>(2 * amplitude + 1)) - amplitude);
}

template <class Work>
void visit(Tensor data, Work work) {
  switch (data.dtype()) {
    case DType::f32:
      return work(data.data<float>());
    case DType::bf16:
      return work(data.data<bfloat16>());
    case DType::f64:
      return work(data.data<double>());
    case DType::i32:
      break;
  }
  throw Error("sums of i32 are not measured");
}

}  // namespace

KnownSums::KnownSums(int rank, int ranks) : mine_(period), sums_(period) {
  for (int64_t i = 0; i < period; ++i) {
    const auto at = static_cast<size_t>(i);
    mine_[at] = contribution(i, rank, ranks);
    for (int other = 0; other < ranks; ++other) sums_[at] += contribution(i, other, ranks);
  }
}

void KnownSums::write(Tensor data, const std::vector<float>& values) {
  visit(data, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const int64_t size = data.size();
    for (int64_t begin = 0; begin < size; begin += period)
      std::transform(values.begin(), values.begin() + std::min(period, size - begin), to + begin,
                     [](float value) { return static_cast<T>(value); });
  });
}

void KnownSums::spoil(Tensor data) {
  visit(data, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    std::fill_n(to, data.size(), static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
  });
}

int64_t KnownSums::wrong(Tensor piece, int64_t first) const {
  int64_t count = 0;
  visit(piece, [&](const auto* found) {
    size_t at = static_cast<size_t>(first % period);
    for (int64_t i = 0; i < piece.size(); ++i) {
      count += static_cast<float>(found[i]) != sums_[at] ? 1 : 0;
      if (++at == sums_.size()) at = 0;
    }
  });
  return count;
}

}  // namespace gpt
