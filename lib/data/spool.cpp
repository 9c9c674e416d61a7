#include "data/spool.hpp"

#include "base/contracts.hpp"

#include <algorithm>

namespace gpt {
namespace {

constexpr size_t tail_limit = 8192;
constexpr int64_t number_bytes = sizeof(uint64_t);

}  // namespace

Spool::Spool(const std::string& folder) : folder_(folder), file_(open_nameless_file(folder)) {}

void Spool::append(std::span<const uint64_t> values) {
  tail_.insert(tail_.end(), values.begin(), values.end());
  if (tail_.size() < tail_limit) return;
  write_at(file_, folder_, written_ * number_bytes, std::as_bytes(std::span(tail_)));
  written_ += static_cast<int64_t>(tail_.size());
  tail_.clear();
}

void Spool::read(int64_t begin, std::span<uint64_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  expects(begin >= 0 && begin + count <= size());
  const int64_t on_disk = std::clamp(written_ - begin, int64_t{0}, count);
  const auto from_file = out.first(static_cast<size_t>(on_disk));
  const int64_t got = read_at(file_, folder_, begin * number_bytes, std::as_writable_bytes(from_file));
  ensures(got == on_disk * number_bytes);
  if (on_disk == count) return;
  const auto from_tail = std::span(tail_).subspan(static_cast<size_t>(begin + on_disk - written_));
  std::copy_n(from_tail.begin(), count - on_disk, out.begin() + on_disk);
}

}  // namespace gpt
