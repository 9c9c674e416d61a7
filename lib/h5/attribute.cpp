#include "base/error.hpp"
#include "h5/internal.hpp"

#include <algorithm>
#include <memory>

namespace gpt {
namespace {

constexpr size_t longest_string = size_t{1} << 20;

void write_attribute(hid_t file, const std::string& where, const std::string& name, hid_t stored,
                     hid_t memory, const void* value) {
  if (check_h5(H5Aexists(file, name.c_str()), where, ExitCode::failed) > 0)
    check_h5(H5Adelete(file, name.c_str()), where, ExitCode::failed);
  const auto space = own_h5<H5SpaceId>(H5Screate(H5S_SCALAR), where, ExitCode::failed);
  const auto attribute = own_h5<H5AttributeId>(
      H5Acreate2(file, name.c_str(), stored, space.get(), H5P_DEFAULT, H5P_DEFAULT), where, ExitCode::failed);
  check_h5(H5Awrite(attribute.get(), memory, value), where, ExitCode::failed);
}

/// An attribute that is there and holds one value of class `kind`.
struct OneValue {
  H5AttributeId attribute;
  H5TypeId type;
};

OneValue open_value(hid_t file, const std::string& where, const std::string& name, H5T_class_t kind,
                    const char* expected) {
  validate(H5Aexists(file, name.c_str()) > 0, ExitCode::damaged, "{}: the attribute is missing", where);
  OneValue value;
  value.attribute = own_h5<H5AttributeId>(H5Aopen(file, name.c_str(), H5P_DEFAULT), where);
  value.type = own_h5<H5TypeId>(H5Aget_type(value.attribute.get()), where);
  const auto space = own_h5<H5SpaceId>(H5Aget_space(value.attribute.get()), where);
  validate(H5Tget_class(value.type.get()) == kind && H5Sget_simple_extent_npoints(space.get()) == 1,
           ExitCode::damaged, "{}: the attribute is not {}", where, expected);
  return value;
}

struct FreeH5 {
  void operator()(char* text) const { H5free_memory(text); }
};

/// h5py writes strings of variable length; they come in memory of the library.
std::string read_variable_string(const OneValue& value, const std::string& where) {
  const auto memory = own_h5<H5TypeId>(H5Tcopy(value.type.get()), where);
  char* raw = nullptr;
  check_h5(H5Aread(value.attribute.get(), memory.get(), static_cast<void*>(&raw)), where);
  const std::unique_ptr<char, FreeH5> text(raw);
  return text ? std::string(text.get()) : std::string();
}

}  // namespace

void H5File::set_attribute(const std::string& name, int64_t value) {
  write_attribute(id_.get(), path_ + "@" + name, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void H5File::set_attribute(const std::string& name, double value) {
  write_attribute(id_.get(), path_ + "@" + name, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void H5File::set_attribute(const std::string& name, const std::string& value) {
  const std::string where = path_ + "@" + name;
  const auto type = own_h5<H5TypeId>(H5Tcopy(H5T_C_S1), where, ExitCode::failed);
  check_h5(H5Tset_size(type.get(), std::max<size_t>(value.size(), 1)), where, ExitCode::failed);
  check_h5(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), where, ExitCode::failed);
  check_h5(H5Tset_cset(type.get(), H5T_CSET_UTF8), where, ExitCode::failed);
  write_attribute(id_.get(), where, name, type.get(), type.get(), value.c_str());
}

std::optional<int64_t> H5File::find_integer(const std::string& name) const {
  if (check_h5(H5Aexists(id_.get(), name.c_str()), path_ + "@" + name) == 0) return std::nullopt;
  return integer(name);
}

int64_t H5File::integer(const std::string& name) const {
  const std::string where = path_ + "@" + name;
  const OneValue value = open_value(id_.get(), where, name, H5T_INTEGER, "one integer");
  int64_t result = 0;
  check_h5(H5Aread(value.attribute.get(), H5T_NATIVE_INT64, &result), where);
  return result;
}

double H5File::real(const std::string& name) const {
  const std::string where = path_ + "@" + name;
  const OneValue value = open_value(id_.get(), where, name, H5T_FLOAT, "one real number");
  double result = 0;
  check_h5(H5Aread(value.attribute.get(), H5T_NATIVE_DOUBLE, &result), where);
  return result;
}

std::string H5File::string(const std::string& name) const {
  const std::string where = path_ + "@" + name;
  const OneValue value = open_value(id_.get(), where, name, H5T_STRING, "one string");
  if (check_h5(H5Tis_variable_str(value.type.get()), where) > 0) return read_variable_string(value, where);
  const size_t bytes = H5Tget_size(value.type.get());
  validate(bytes <= longest_string, ExitCode::damaged, "{}: a string of {} bytes, at most {} are allowed",
           where, bytes, longest_string);
  std::string text(bytes, '\0');
  check_h5(H5Aread(value.attribute.get(), value.type.get(), text.data()), where);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

}  // namespace gpt
