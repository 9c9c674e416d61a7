#include "train/replica_check.hpp"

#include "base/contracts.hpp"
#include "base/hash.hpp"
#include "comm/hang.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace gpt {
namespace {

constexpr int64_t piece_bytes = int64_t{4} << 20;

std::vector<uint64_t> hashes_from(std::string_view bytes) {
  std::vector<uint64_t> hashes(bytes.size() / sizeof(uint64_t));
  std::memcpy(hashes.data(), bytes.data(), hashes.size() * sizeof(uint64_t));
  return hashes;
}

/// The value that more than half of them have.
std::optional<uint64_t> majority_of(std::vector<uint64_t> values) {
  std::ranges::sort(values);
  const uint64_t middle = values[values.size() / 2];
  const auto holders = static_cast<size_t>(std::ranges::count(values, middle));
  return 2 * holders > values.size() ? std::optional(middle) : std::nullopt;
}

}  // namespace

std::optional<Deviation> find_deviation(const std::vector<std::vector<uint64_t>>& of_rank) {
  Deviation found;
  for (size_t index = 0; index < of_rank.front().size(); ++index) {
    std::vector<uint64_t> values;
    for (const std::vector<uint64_t>& hashes : of_rank) values.push_back(hashes[index]);
    if (std::ranges::count(values, values.front()) == std::ssize(values)) continue;
    if (found.hashes++ > 0) continue;
    found.index = index;
    const std::optional<uint64_t> majority = majority_of(values);
    for (size_t rank = 0; rank < values.size(); ++rank)
      (values[rank] == majority ? found.agreeing : found.ranks).push_back(static_cast<int>(rank));
  }
  return found.hashes > 0 ? std::optional(std::move(found)) : std::nullopt;
}

ReplicaCheck::ReplicaCheck(const World& world, const Layout& layout, Device& device, const Weights& weights)
    : world_(world), piece_(device.host_memory(), DType::f32, {piece_bytes / size_of(DType::f32)}) {
  for (const Parameter& parameter : layout.all()) {
    const Range elements{parameter.offset, parameter.offset + parameter.stored};
    copies_.push_back({parameter.name, weights.read(elements)});
    if (weights.rounded(elements) && !weights.is_divided())
      copies_.push_back({parameter.name + " (fp32)", weights.master(elements)});
  }
}

uint64_t ReplicaCheck::hash_of(const Tensor& weights, Queue& queue) {
  const int64_t largest = piece_bytes / size_of(weights.dtype());
  StreamHash hash;
  for (int64_t first = 0; first < weights.size(); first += largest) {
    const Range range{first, std::min(first + largest, weights.size())};
    const Tensor piece(piece_->raw(), weights.dtype(), {range.size()});
    queue.copy(piece, weights.flat(range));
    queue.synchronize();
    hash.update(piece.raw(), static_cast<size_t>(piece.bytes()));
    world_.watchdog().tick();
  }
  return hash.digest();
}

std::optional<ReplicaDifference> ReplicaCheck::compare(Queue& queue) {
  std::string mine;
  for (const Copy& copy : copies_) {
    const uint64_t hash = hash_of(copy.weights, queue);
    mine.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  }
  // Nearly always they are alike, and then a few bytes of each rank say so.
  const std::vector<std::string> digests = world_.gather(to_hex(hash_bytes(mine)));
  if (std::ranges::count(digests, digests.front()) == std::ssize(digests)) return std::nullopt;
  std::vector<std::vector<uint64_t>> of_rank;
  for (const std::string& bytes : world_.gather(mine)) of_rank.push_back(hashes_from(bytes));
  const std::optional<Deviation> deviation = find_deviation(of_rank);
  ensures(deviation.has_value());
  return describe(*deviation);
}

ReplicaDifference ReplicaCheck::describe(const Deviation& deviation) const {
  const std::string& parameter = copies_[deviation.index].name;
  const std::string others =
      deviation.hashes > 1 ? fmt::format(" (and {} more)", deviation.hashes - 1) : std::string();
  const std::string text =
      deviation.agreeing.empty()
          ? fmt::format("{} hold different weights {}{}", list_ranks(deviation.ranks), parameter, others)
          : fmt::format("the weights {}{} of {} are not those of {}", parameter, others,
                        list_ranks(deviation.ranks), list_ranks(deviation.agreeing));
  return {.parameter = parameter, .ranks = deviation.ranks, .text = text};
}

}  // namespace gpt
