#pragma once

#include "base/integers.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace gpt {

/// A set of numbers that lie close together, at a bit each.
class BitSet {
public:
  /// False if it was there.
  bool insert(int64_t number);
  bool contains(int64_t number) const;

private:
  static constexpr int64_t page_bits = int64_t{1} << 16;
  using Page = std::array<uint64_t, page_bits / 64>;
  std::unordered_map<int64_t, std::unique_ptr<Page>> pages_;
};

/// A window at the place at which its lane's order has it.
struct PlacedWindow {
  int64_t lane = 0;
  int64_t place = 0;   ///< in the lane's order from the start of training on, windows passed over counted
  int64_t window = 0;  ///< of the lane, in storage order
};

/// Counts what was read of each epoch. An epoch of which everything was read once takes no memory any more.
class EpochBook {
public:
  /// @param skipped  places of each lane that are passed over (Lanes)
  EpochBook(int64_t lanes, int64_t windows_per_lane, std::vector<Range> skipped);

  /// Of the windows that were passed over, one that is known. Before any read.
  void pass_over(const PlacedWindow& read);

  enum class Verdict {
    first,       ///< as it should be
    again,       ///< that window was read in that epoch before
    passed_over  ///< it is one of those that were to be passed over
  };
  /// A read that counts.
  Verdict add(const PlacedWindow& read);

  /// An epoch as far as places [range) of each lane were to be read.
  struct Epoch {
    int64_t number = 0;
    int64_t windows = 0;    ///< that it has
    int64_t expected = 0;   ///< that were to be read
    int64_t skipped = 0;    ///< that were to be passed over
    int64_t places = 0;     ///< places that were read
    int64_t read = 0;       ///< different windows that were read
    bool complete = false;  ///< the range holds the whole epoch

    bool exact() const { return places == expected && read == expected; }
  };
  std::vector<Epoch> epochs(Range places) const;

  bool has_place(int64_t lane, int64_t place) const;                       ///< it was read
  bool has_window(int64_t lane, int64_t window, int64_t epoch) const;      ///< it was read
  bool is_passed_over(int64_t lane, int64_t window, int64_t epoch) const;  ///< as far as is known
  bool skips(int64_t place) const;                                         ///< every lane passes over it

private:
  struct Pages {
    BitSet places, windows;
    int64_t place_count = 0, window_count = 0;
    bool whole = false;  // everything was read once: the sets are empty again
  };

  int64_t index_of(int64_t lane, int64_t within) const { return lane * windows_per_lane_ + within; }
  int64_t skipped_in(Range places) const;

  const int64_t lanes_;
  const int64_t windows_per_lane_;
  const std::vector<Range> skipped_;
  std::map<int64_t, Pages> epochs_;
  std::set<std::tuple<int64_t, int64_t, int64_t>> passed_over_;  // epoch, lane, window
};

}  // namespace gpt
