#pragma once

#include "base/exit_code.hpp"
#include "base/file_fault.hpp"
#include "base/handle.hpp"
#include "base/integers.hpp"
#include "base/mpi.hpp"

#include <cstdint>
#include <hdf5.h>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// One trait for every kind of HDF5 identifier.
template <herr_t (*Close)(hid_t)>
struct H5IdTraits {
  using type = hid_t;
  static type null() { return H5I_INVALID_HID; }
  static void release(type id) { Close(id); }
};
using H5FileId = Handle<H5IdTraits<H5Fclose>>;
using H5GroupId = Handle<H5IdTraits<H5Gclose>>;
using H5DatasetId = Handle<H5IdTraits<H5Dclose>>;
using H5SpaceId = Handle<H5IdTraits<H5Sclose>>;
using H5TypeId = Handle<H5IdTraits<H5Tclose>>;
using H5AttributeId = Handle<H5IdTraits<H5Aclose>>;
using H5PropertyId = Handle<H5IdTraits<H5Pclose>>;

/// Throws an Error with `what` and HDF5's error stack as text unless `result` >= 0; returns it.
/// @param code  what a failure means: `damaged` when reading, `failed` when writing. When the system refused
///              (no permission, disk full, too many files: any errno but EIO) it is `failed` always
int64_t check_h5(int64_t result, const std::string& what, ExitCode code = ExitCode::damaged);

/// "1.10.8": the version compiled against, and the one loaded.
std::string hdf5_compiled_version();
std::string hdf5_loaded_version();

enum class H5Element { u8, u16, u32, u64, f32 };

int64_t size_of(H5Element element);

/// A 1-D dataset of fixed-size elements, contiguous in the file.
class H5Dataset {
public:
  /// @throws Error(damaged) if it is something else, or says that it holds more than the file does
  H5Dataset(H5DatasetId id, std::string where);

  int64_t size() const { return size_; }
  H5Element element() const { return element_; }
  const std::string& where() const { return where_; }  ///< "FILE:/path", for messages

  /// Byte offset of element 0 in the file. @throws Error(damaged) if no storage was allocated, as for an
  /// empty dataset
  int64_t file_offset() const;

  /// Reads or writes elements [range) from or to `data`, converted from or to `memory`'s type. Independent of
  /// other ranks; cut into pieces of 64 MiB, since one call beyond 2 GiB fails in MPI-IO.
  /// @throws Error(damaged) if the range is outside the dataset or the file is
  void read(Range range, H5Element memory, void* data) const;
  /// @param fault  what a fault point made of this write @throws Error(failed)
  void write(Range range, H5Element memory, const void* data, const FileFault& fault = {});

private:
  H5DatasetId id_;
  std::string where_;
  int64_t size_ = 0;
  H5Element element_ = H5Element::u8;
};

/// An HDF5 file. Reading takes no lock where the library allows it and never changes the file. Reading
/// functions throw Error(damaged), those that write Error(failed).
class H5File {
public:
  /// @throws Error(damaged) naming the file and the reason: missing, empty, not HDF5, truncated;
  /// Error(failed) if the system does not let it be opened: no permission, locked, too many open files
  static H5File open(const std::string& path);

  /// A new file for one process; replaces an existing one.
  static H5File create(const std::string& path);

  /// An existing file whose datasets all ranks of `comm` write into together. Opening it, opening datasets
  /// and closing are collective; nothing is created, so that no rank writes structure while another fails.
  static H5File open_parallel(const std::string& path, MPI_Comm comm);

  const std::string& path() const { return path_; }
  int64_t size() const;  ///< bytes up to HDF5's end of the file; what is appended behind it does not count
  bool contains(const std::string& name) const;
  void make_group(const std::string& name);
  /// What lies in a group, in alphabetical order. @throws Error(damaged) if it is missing, or holds more than
  /// `limit`
  std::vector<std::string> names_in(const std::string& group, int64_t limit) const;

  /// Fixed size: contiguous, allocated at once, never filled, aligned to 4 MiB when large.
  H5Dataset create_dataset(const std::string& name, H5Element element, int64_t size);
  H5Dataset open_dataset(const std::string& name) const;

  /// A view of the f32 dataset `source` of this file, `source_size` elements long: those from `offset` on
  /// under their own name and shape. It reads as NaN if the source is gone.
  void create_view(const std::string& name, const std::vector<int64_t>& shape, const std::string& source,
                   int64_t source_size, int64_t offset);
  std::vector<int64_t> shape_of(const std::string& name) const;

  /// A string stored as a byte dataset of its own; for texts of any length.
  void write_text(const std::string& name, const std::string& text);
  /// @throws Error(damaged) if it is missing or longer than `limit` bytes
  std::string read_text(const std::string& name, int64_t limit) const;

  /// Attributes of the whole file; an existing one is replaced. Texts of any length belong into write_text.
  void set_attribute(const std::string& name, int64_t value);
  void set_attribute(const std::string& name, double value);
  void set_attribute(const std::string& name, const std::string& value);
  std::optional<int64_t> find_integer(const std::string& name) const;
  int64_t integer(const std::string& name) const;  ///< @throws Error(damaged) if missing or of another type
  double real(const std::string& name) const;
  std::string string(const std::string& name) const;

  void flush();
  void close();
  /// Gives the file up without closing it: after a failed parallel write a collective close would hang.
  void abandon();

private:
  H5File(H5FileId id, std::string path);

  H5FileId id_;
  std::string path_;
};

}  // namespace gpt
