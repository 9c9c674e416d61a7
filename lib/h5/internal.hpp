#pragma once

#include "h5/h5.hpp"

#include <string>

namespace gpt {

/// HDF5 prints nothing by itself from now on: messages travel in exceptions.
void silence_h5();

/// The identifier, or an Error as from check_h5.
template <class Id>
Id own_h5(hid_t id, const std::string& what, ExitCode code = ExitCode::damaged) {
  return Id(static_cast<hid_t>(check_h5(id, what, code)));
}

hid_t file_type(H5Element element);    ///< little-endian, as stored
hid_t memory_type(H5Element element);  ///< as this machine holds it

/// Refuses a path of which a part is a link: it may lead out of the file. @throws Error(damaged)
void check_path(hid_t file, const std::string& file_path, const std::string& name);

/// Creation properties of a group or dataset: without times, so that equal contents are equal bytes.
H5PropertyId creation_properties(hid_t property_class, const std::string& where);

}  // namespace gpt
