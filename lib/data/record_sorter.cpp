#include "data/record_sorter.hpp"

#include "base/contracts.hpp"
#include "base/integers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpt {
namespace {

constexpr int64_t bucket_bytes = int64_t{256} << 10;  // fits into caches, where it is read in any order
constexpr int64_t most_buckets = 4096;
constexpr size_t memory_bytes = size_t{32} << 20;  // of all buckets

/// Stands before each record in its bucket.
struct Head {
  uint32_t place;  // in the bucket
  uint32_t bytes;
};

}  // namespace

RecordSorter::RecordSorter(const std::string& folder, int64_t records, int64_t bytes)
    : folder_(folder), file_(open_nameless_file(folder)), records_(records) {
  expects(records >= 1 && bytes >= 0);
  const int64_t all = bytes + records * static_cast<int64_t>(sizeof(Head));
  const int64_t buckets = std::clamp(ceil_div(all, bucket_bytes), int64_t{1}, most_buckets);
  const auto places = static_cast<uint64_t>(ceil_div(records, buckets));
  place_bits_ = static_cast<int>(std::bit_width(places - 1));
  buckets_.resize(static_cast<size_t>(((records - 1) >> place_bits_) + 1));
  most_waiting_ = memory_bytes / buckets_.size();
}

void RecordSorter::put(int64_t place, std::string_view record) {
  expects(place >= 0 && place < records_);
  Bucket& bucket = buckets_[static_cast<size_t>(place >> place_bits_)];
  const Head head{.place = static_cast<uint32_t>(place & ((int64_t{1} << place_bits_) - 1)),
                  .bytes = static_cast<uint32_t>(record.size())};
  bucket.waiting.append(reinterpret_cast<const char*>(&head), sizeof head).append(record);
  if (bucket.waiting.size() >= most_waiting_) write(bucket);
}

void RecordSorter::write(Bucket& bucket) {
  write_at(file_, folder_, written_, std::as_bytes(std::span(bucket.waiting)));
  bucket.pieces.push_back({written_, std::ssize(bucket.waiting)});
  written_ += std::ssize(bucket.waiting);
  bucket.waiting.clear();
}

std::string_view RecordSorter::read(const Bucket& bucket, std::string& contents) const {
  if (bucket.pieces.empty()) return bucket.waiting;
  contents.clear();
  for (const Piece& piece : bucket.pieces) {
    const size_t before = contents.size();
    contents.resize(before + static_cast<size_t>(piece.bytes));
    const int64_t got =
        read_at(file_, folder_, piece.offset, std::as_writable_bytes(std::span(contents).subspan(before)));
    ensures(got == piece.bytes);
  }
  return contents += bucket.waiting;
}

void RecordSorter::visit(const std::function<void(std::string_view)>& visitor) {
  std::string from_file;
  std::vector<size_t> begins;  // of the records, by place
  int64_t left = records_;
  for (const Bucket& bucket : buckets_) {
    const std::string_view contents = read(bucket, from_file);
    const int64_t places = std::min(left, int64_t{1} << place_bits_);
    left -= places;
    begins.assign(static_cast<size_t>(places), 0);
    Head head{};
    for (size_t at = 0; at < contents.size(); at += sizeof head + head.bytes) {
      std::memcpy(&head, contents.data() + at, sizeof head);
      begins[head.place] = at;
    }
    for (const size_t at : begins) {
      std::memcpy(&head, contents.data() + at, sizeof head);
      visitor(contents.substr(at + sizeof head, head.bytes));
    }
  }
}

}  // namespace gpt
