#include "data/lanes.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/philox.hpp"
#include "data/permutation.hpp"

#include <algorithm>
#include <utility>

namespace gpt {
namespace {

constexpr uint64_t order_stream =
    0x6c616e65'6f726465;  // keeps the order apart from other draws of the same seed

}  // namespace

std::vector<Range> with_range(const std::vector<Range>& skipped, Range range) {
  std::vector<Range> ranges;
  for (const Range& other : skipped) {
    if (other.end < range.begin || other.begin > range.end)
      ranges.push_back(other);
    else
      range = {std::min(range.begin, other.begin), std::max(range.end, other.end)};
  }
  ranges.push_back(range);
  std::ranges::sort(ranges, {}, &Range::begin);
  return ranges;
}

Lanes::Lanes(int64_t lanes, int64_t windows_per_lane, uint64_t seed, std::vector<Range> skipped)
    : lanes_(lanes), windows_per_lane_(windows_per_lane), seed_(seed), skipped_(std::move(skipped)) {
  validate(lanes >= 1, "{} lanes: a dataset needs at least one training shard", lanes);
  validate(windows_per_lane >= 1,
           "{} windows per shard: the shortest shard must hold at least context + 1 tokens; use a shorter "
           "context, "
           "fewer shards (gpt_data reshard) or more text",
           windows_per_lane);
}

int64_t Lanes::place_of(int64_t cursor) const {
  int64_t place = cursor;
  for (const Range& range : skipped_)
    if (range.begin <= place) place += range.size();
  return place;
}

WindowId Lanes::window(int64_t lane, int64_t cursor) const {
  expects(lane >= 0 && lane < lanes_ && cursor >= 0);
  const int64_t place = place_of(cursor), epoch = place / windows_per_lane_;
  const uint64_t key =
      random_bits(seed_ ^ order_stream, static_cast<uint64_t>(lane), static_cast<uint64_t>(epoch));
  const Permutation order(windows_per_lane_, key);
  return {lane, order(place % windows_per_lane_), epoch};
}

WindowId Lanes::sequence(int64_t sequence, int64_t batch, int64_t cursor) const {
  expects(batch > 0 && batch % lanes_ == 0 && sequence >= 0 && sequence < batch);
  const int64_t per_lane = batch / lanes_;
  return window(sequence / per_lane, cursor + sequence % per_lane);
}

}  // namespace gpt
