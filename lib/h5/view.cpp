#include "base/error.hpp"
#include "h5/internal.hpp"

#include <limits>
#include <numeric>

namespace gpt {

void H5File::create_view(const std::string& name, const std::vector<int64_t>& shape,
                         const std::string& source, int64_t source_size, int64_t offset) {
  const std::string where = path_ + ":" + name;
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const hsize_t start = static_cast<hsize_t>(offset);
  const hsize_t count = std::accumulate(extents.begin(), extents.end(), hsize_t{1}, std::multiplies<>());
  const hsize_t whole = static_cast<hsize_t>(source_size);

  const auto view_space = own_h5<H5SpaceId>(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), where, ExitCode::failed);
  const auto source_space = own_h5<H5SpaceId>(H5Screate_simple(1, &whole, nullptr), where, ExitCode::failed);
  check_h5(H5Sselect_hyperslab(source_space.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr), where,
           ExitCode::failed);

  const H5PropertyId properties = creation_properties(H5P_DATASET_CREATE, where);
  const float missing = std::numeric_limits<float>::quiet_NaN();
  check_h5(H5Pset_fill_value(properties.get(), H5T_NATIVE_FLOAT, &missing), where, ExitCode::failed);
  // "." is the file itself, so that views survive a rename.
  check_h5(H5Pset_virtual(properties.get(), view_space.get(), ".", source.c_str(), source_space.get()), where,
           ExitCode::failed);
  own_h5<H5DatasetId>(H5Dcreate2(id_.get(), name.c_str(), H5T_IEEE_F32LE, view_space.get(), H5P_DEFAULT,
                                 properties.get(), H5P_DEFAULT),
                      where, ExitCode::failed);
}

std::vector<int64_t> H5File::shape_of(const std::string& name) const {
  const std::string where = path_ + ":" + name;
  check_path(id_.get(), path_, name);
  const auto dataset = own_h5<H5DatasetId>(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), where);
  const auto space = own_h5<H5SpaceId>(H5Dget_space(dataset.get()), where);
  std::vector<hsize_t> extents(static_cast<size_t>(check_h5(H5Sget_simple_extent_ndims(space.get()), where)));
  check_h5(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), where);
  return {extents.begin(), extents.end()};
}

}  // namespace gpt
