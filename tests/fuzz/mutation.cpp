#include "fuzz/mutation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace gpt::fuzz {
namespace {

constexpr uint64_t longest_piece = 64;
constexpr uint64_t edge = 4096;  // of both ends of a file, where more depends on a byte than elsewhere

/// A place for `length` bytes. @param length  at most bytes.size()
size_t place_for(const std::string& bytes, size_t length, Draws& draws) {
  const size_t places = bytes.size() - length + 1;
  const size_t near = std::min<size_t>(places, edge);
  switch (draws.below(8)) {
    case 0:
      return places - 1 - draws.below(near);
    case 1:
    case 2:
      return draws.below(near);
    default:
      return draws.below(places);
  }
}

size_t piece_length(const std::string& bytes, Draws& draws) {
  return 1 + draws.below(std::min<uint64_t>(longest_piece, bytes.size()));
}

std::string random_bytes(size_t length, Draws& draws) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(draws.next());
  return bytes;
}

void put_number(std::string& bytes, size_t place, uint64_t value, size_t width) {
  std::memcpy(bytes.data() + place, &value, width);  // of little-endian machines: the low bytes
}

uint64_t number_at(const std::string& bytes, size_t place) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

/// Where 8 bytes may be an address in the file.
std::vector<size_t> addresses_in(const std::string& bytes) {
  std::vector<size_t> places;
  for (size_t place = 0; place + 8 <= bytes.size(); place += 8)
    if (const uint64_t value = number_at(bytes, place); value >= 8 && value < bytes.size())
      places.push_back(place);
  return places;
}

void redirect(std::string& bytes, Draws& draws) {
  const std::vector<size_t> places = addresses_in(bytes);
  if (places.empty()) return;
  const size_t from = places[draws.below(places.size())];
  const size_t other = places[draws.below(places.size())];
  const std::array<uint64_t, 4> targets{number_at(bytes, other), from, draws.below(bytes.size()),
                                        std::numeric_limits<uint64_t>::max()};
  put_number(bytes, from, targets[draws.below(targets.size())], 8);
}

void change_number(std::string& bytes, Draws& draws) {
  const size_t width = size_t{1} << draws.below(4);
  if (bytes.size() < 8) return;
  const size_t place = place_for(bytes, 8, draws);
  const uint64_t value = draws.below(2) == 0 ? notable_number(bytes.size(), draws)
                                             : number_at(bytes, place) + draws.below(17) - 8;
  put_number(bytes, place, value, width);
}

void change_piece(std::string& bytes, Draws& draws) {
  const size_t length = piece_length(bytes, draws);
  const size_t place = place_for(bytes, length, draws);
  const size_t other = place_for(bytes, length, draws);
  switch (draws.below(6)) {
    case 0:
      std::memmove(bytes.data() + place, bytes.data() + other, length);
      break;
    case 1: {
      const std::string first = bytes.substr(place, length), second = bytes.substr(other, length);
      bytes.replace(place, length, second);
      bytes.replace(other, length, first);
      break;
    }
    case 2:
      bytes.erase(place, length);
      break;
    case 3:
      bytes.insert(place, draws.below(2) == 0 ? bytes.substr(other, length) : random_bytes(length, draws));
      break;
    case 4:
      bytes.replace(place, length, length, '\0');
      break;
    default:
      bytes.replace(place, length, length, '\xff');
  }
}

void change_once(std::string& bytes, Draws& draws) {
  if (bytes.empty()) {
    bytes = random_bytes(1 + draws.below(longest_piece), draws);
    return;
  }
  switch (draws.below(10)) {
    case 0:
    case 1: {
      char& byte = bytes[place_for(bytes, 1, draws)];
      byte = static_cast<char>(byte ^ (1 << draws.below(8)));
      break;
    }
    case 2:
      bytes[place_for(bytes, 1, draws)] = static_cast<char>(draws.next());
      break;
    case 3:
    case 4:
      change_number(bytes, draws);
      break;
    case 5:
    case 6:
      redirect(bytes, draws);
      break;
    case 7:
    case 8:
      change_piece(bytes, draws);
      break;
    default:
      if (draws.below(4) == 0) bytes.resize(draws.below(bytes.size()));
  }
}

}  // namespace

uint64_t notable_number(uint64_t size, Draws& draws) {
  const std::array<uint64_t, 14> numbers{0,
                                         1,
                                         2,
                                         0x7f,
                                         0xff,
                                         0x7fff,
                                         0xffff,
                                         0x7fffffff,
                                         0xffffffff,
                                         uint64_t{1} << 40,
                                         std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<uint64_t>::max(),
                                         size,
                                         size - 1};
  return numbers[draws.below(numbers.size())];
}

std::string mutate(std::string bytes, Draws& draws) {
  const uint64_t changes = 1 + draws.below(4);
  for (uint64_t change = 0; change < changes; ++change) change_once(bytes, draws);
  return bytes;
}

}  // namespace gpt::fuzz
