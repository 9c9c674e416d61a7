#include "train/ledger_epochs.hpp"

#include "base/contracts.hpp"

#include <algorithm>
#include <utility>

namespace gpt {

bool BitSet::insert(int64_t number) {
  std::unique_ptr<Page>& page = pages_[number / page_bits];
  if (!page) page = std::make_unique<Page>();
  const auto bit = static_cast<size_t>(number % page_bits);
  uint64_t& word = (*page)[bit / 64];
  const uint64_t mask = uint64_t{1} << (bit % 64);
  const bool is_new = (word & mask) == 0;
  word |= mask;
  return is_new;
}

bool BitSet::contains(int64_t number) const {
  const auto found = pages_.find(number / page_bits);
  if (found == pages_.end()) return false;
  const auto bit = static_cast<size_t>(number % page_bits);
  return ((*found->second)[bit / 64] >> (bit % 64) & 1) != 0;
}

EpochBook::EpochBook(int64_t lanes, int64_t windows_per_lane, std::vector<Range> skipped)
    : lanes_(lanes), windows_per_lane_(windows_per_lane), skipped_(std::move(skipped)) {
  expects(lanes >= 1 && windows_per_lane >= 1);
}

int64_t EpochBook::skipped_in(Range places) const {
  int64_t count = 0;
  for (const Range& range : skipped_) count += std::max<int64_t>(0, common(range, places).size());
  return count;
}

bool EpochBook::skips(int64_t place) const {
  return std::ranges::any_of(skipped_, [&](const Range& range) {
    return contains(range, Range{place, place + 1});
  });
}

void EpochBook::pass_over(const PlacedWindow& read) {
  passed_over_.emplace(read.place / windows_per_lane_, read.lane, read.window);
}

bool EpochBook::is_passed_over(int64_t lane, int64_t window, int64_t epoch) const {
  return passed_over_.contains({epoch, lane, window});
}

EpochBook::Verdict EpochBook::add(const PlacedWindow& read) {
  const int64_t epoch = read.place / windows_per_lane_;
  if (skips(read.place) || is_passed_over(read.lane, read.window, epoch)) return Verdict::passed_over;
  Pages& pages = epochs_[epoch];
  if (pages.whole) return Verdict::again;
  const bool new_place = pages.places.insert(index_of(read.lane, read.place % windows_per_lane_));
  const bool new_window = pages.windows.insert(index_of(read.lane, read.window));
  if (new_place) ++pages.place_count;
  if (new_window) ++pages.window_count;
  const Range all{epoch * windows_per_lane_, (epoch + 1) * windows_per_lane_};
  const int64_t expected = lanes_ * (windows_per_lane_ - skipped_in(all));
  if (pages.place_count == expected && pages.window_count == expected) {
    pages.places = {};
    pages.windows = {};
    pages.whole = true;
  }
  return new_place && new_window ? Verdict::first : Verdict::again;
}

std::vector<EpochBook::Epoch> EpochBook::epochs(Range places) const {
  std::vector<Epoch> list;
  if (places.empty()) return list;
  for (int64_t number = places.begin / windows_per_lane_; number * windows_per_lane_ < places.end; ++number) {
    const Range all{number * windows_per_lane_, (number + 1) * windows_per_lane_};
    const Range part = common(all, places);
    const int64_t skipped = skipped_in(part);
    Epoch epoch{.number = number,
                .windows = lanes_ * windows_per_lane_,
                .expected = lanes_ * (part.size() - skipped),
                .skipped = lanes_ * skipped,
                .complete = part == all};
    if (const auto found = epochs_.find(number); found != epochs_.end()) {
      epoch.places = found->second.place_count;
      epoch.read = found->second.window_count;
    }
    list.push_back(epoch);
  }
  return list;
}

bool EpochBook::has_place(int64_t lane, int64_t place) const {
  const auto found = epochs_.find(place / windows_per_lane_);
  if (found == epochs_.end()) return false;
  return found->second.whole || found->second.places.contains(index_of(lane, place % windows_per_lane_));
}

bool EpochBook::has_window(int64_t lane, int64_t window, int64_t epoch) const {
  const auto found = epochs_.find(epoch);
  if (found == epochs_.end()) return false;
  return found->second.whole || found->second.windows.contains(index_of(lane, window));
}

}  // namespace gpt
