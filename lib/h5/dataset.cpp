#include "base/error.hpp"
#include "h5/internal.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t piece_bytes = int64_t{64} << 20;

H5Element element_of(hid_t type, const std::string& where) {
  const H5T_class_t kind = H5Tget_class(type);
  const size_t bytes = H5Tget_size(type);
  const bool little = bytes == 1 || H5Tget_order(type) == H5T_ORDER_LE;
  if (kind == H5T_FLOAT && bytes == 4 && little) return H5Element::f32;
  if (kind == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE && little) {
    if (bytes == 1) return H5Element::u8;
    if (bytes == 2) return H5Element::u16;
    if (bytes == 4) return H5Element::u32;
    if (bytes == 8) return H5Element::u64;
  }
  throw Error(
      fmt::format("{}: its elements are neither little-endian unsigned integers nor 32-bit floats", where),
      ExitCode::damaged);
}

int64_t bytes_of_file(hid_t dataset, const std::string& where) {
  const auto file = own_h5<H5FileId>(H5Iget_file_id(dataset), where);
  hsize_t bytes = 0;
  check_h5(H5Fget_filesize(file.get(), &bytes), where);
  return static_cast<int64_t>(bytes);
}

/// Only storage inside this file: a foreign file could name another one of this machine as its data.
void check_storage(hid_t dataset, const std::string& where) {
  const auto properties = own_h5<H5PropertyId>(H5Dget_create_plist(dataset), where);
  validate(H5Pget_layout(properties.get()) == H5D_CONTIGUOUS, ExitCode::damaged,
           "{}: not a contiguous dataset: write it without chunks and compression", where);
  validate(H5Pget_external_count(properties.get()) == 0, ExitCode::damaged,
           "{}: its data lie in another file", where);
}

/// Calls `transfer(memory space, file space, element)` for pieces of [range).
template <class Transfer>
void in_pieces(hid_t dataset, Range range, int64_t piece, const std::string& where, ExitCode code,
               const Transfer& transfer) {
  const auto file_space = own_h5<H5SpaceId>(H5Dget_space(dataset), where, code);
  for (int64_t begin = range.begin; begin < range.end; begin += piece) {
    const hsize_t start = static_cast<hsize_t>(begin);
    const hsize_t count = static_cast<hsize_t>(std::min(piece, range.end - begin));
    check_h5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr), where,
             code);
    const auto memory_space = own_h5<H5SpaceId>(H5Screate_simple(1, &count, nullptr), where, code);
    transfer(memory_space.get(), file_space.get(), begin);
  }
}

void check_range(Range range, int64_t size, const std::string& where, ExitCode code) {
  validate(range.begin >= 0 && range.begin <= range.end && range.end <= size, code,
           "{}: elements {} to {} asked for, it has {}", where, range.begin, range.end, size);
}

}  // namespace

int64_t size_of(H5Element element) {
  switch (element) {
    case H5Element::u8:
      return 1;
    case H5Element::u16:
      return 2;
    case H5Element::u64:
      return 8;
    case H5Element::u32:
    case H5Element::f32:
      break;
  }
  return 4;
}

hid_t file_type(H5Element element) {
  switch (element) {
    case H5Element::u8:
      return H5T_STD_U8LE;
    case H5Element::u16:
      return H5T_STD_U16LE;
    case H5Element::u32:
      return H5T_STD_U32LE;
    case H5Element::u64:
      return H5T_STD_U64LE;
    case H5Element::f32:
      break;
  }
  return H5T_IEEE_F32LE;
}

hid_t memory_type(H5Element element) {
  switch (element) {
    case H5Element::u8:
      return H5T_NATIVE_UINT8;
    case H5Element::u16:
      return H5T_NATIVE_UINT16;
    case H5Element::u32:
      return H5T_NATIVE_UINT32;
    case H5Element::u64:
      return H5T_NATIVE_UINT64;
    case H5Element::f32:
      break;
  }
  return H5T_NATIVE_FLOAT;
}

H5Dataset::H5Dataset(H5DatasetId id, std::string where) : id_(std::move(id)), where_(std::move(where)) {
  const auto space = own_h5<H5SpaceId>(H5Dget_space(id_.get()), where_);
  const int dimensions = H5Sget_simple_extent_ndims(space.get());
  validate(dimensions == 1, ExitCode::damaged, "{}: it has {} dimensions, expected 1", where_, dimensions);
  const auto type = own_h5<H5TypeId>(H5Dget_type(id_.get()), where_);
  element_ = element_of(type.get(), where_);
  check_storage(id_.get(), where_);

  const int64_t points = check_h5(H5Sget_simple_extent_npoints(space.get()), where_);
  const int64_t file_bytes = bytes_of_file(id_.get(), where_);
  validate(points <= file_bytes / size_of(element_), ExitCode::damaged,
           "{}: it says that it holds {} elements of {} bytes, but the file has {} bytes", where_, points,
           size_of(element_), file_bytes);
  size_ = points;
}

int64_t H5Dataset::file_offset() const {
  const haddr_t offset = H5Dget_offset(id_.get());
  validate(offset != HADDR_UNDEF, ExitCode::damaged, "{}: it has no storage in the file", where_);
  const int64_t room = bytes_of_file(id_.get(), where_) - size_ * size_of(element_);
  validate(offset <= static_cast<haddr_t>(room), ExitCode::damaged,
           "{}: its data are said to begin at byte {}, beyond the end of the file", where_, offset);
  return static_cast<int64_t>(offset);
}

void H5Dataset::read(Range range, H5Element memory, void* data) const {
  check_range(range, size_, where_, ExitCode::damaged);
  const int64_t piece = piece_bytes / std::max(size_of(memory), size_of(element_));
  in_pieces(id_.get(), range, piece, where_, ExitCode::damaged,
            [&](hid_t memory_space, hid_t file_space, int64_t begin) {
              char* target = static_cast<char*>(data) + (begin - range.begin) * size_of(memory);
              if (H5Dread(id_.get(), memory_type(memory), memory_space, file_space, H5P_DEFAULT, target) < 0)
                check_h5(-1, fmt::format("{}: cannot read from element {}", where_, begin));
            });
}

void H5Dataset::write(Range range, H5Element memory, const void* data, const FileFault& fault) {
  check_range(range, size_, where_, ExitCode::failed);
  if (fault.error != 0)
    check_file(fault, ExitCode::failed, fmt::format("{}: cannot write from element {}", where_, range.begin));
  if (fault.damages()) {
    const std::span bytes(static_cast<const std::byte*>(data),
                          static_cast<size_t>(range.size() * size_of(memory)));
    const std::vector<std::byte> arriving = damaged(bytes, fault);
    const int64_t whole = std::ssize(arriving) / size_of(memory);
    return write({range.begin, range.begin + whole}, memory, arriving.data());
  }
  const int64_t piece = piece_bytes / std::max(size_of(memory), size_of(element_));
  in_pieces(id_.get(), range, piece, where_, ExitCode::failed,
            [&](hid_t memory_space, hid_t file_space, int64_t begin) {
              const char* source = static_cast<const char*>(data) + (begin - range.begin) * size_of(memory);
              if (H5Dwrite(id_.get(), memory_type(memory), memory_space, file_space, H5P_DEFAULT, source) < 0)
                check_h5(-1, fmt::format("{}: cannot write from element {}", where_, begin),
                         ExitCode::failed);
            });
}

}  // namespace gpt
